"""Prints stories: python -m stories --count 5 --seed 1 --language ko (run in tools/)."""

import argparse
import itertools

from . import stories


def main():
    parser = argparse.ArgumentParser(description="Prints stories from the story grammar.")
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--language", choices=("ko", "en", "both"), default="both")
    args = parser.parse_args()
    languages = ("ko", "en") if args.language == "both" else (args.language,)
    for story in itertools.islice(stories(args.seed, languages), args.count):
        print(f"[{story.language} {story.plot}]\n{story.text}\n")


if __name__ == "__main__":
    main()
