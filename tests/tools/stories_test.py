"""The story grammar: particles, determinism, variety, and characters that keep their names."""

import itertools
import pathlib
import random
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import stories  # noqa: E402
from stories import korean, language, template  # noqa: E402
from stories.teller import Teller  # noqa: E402


def some(count, seed=7, languages=("ko", "en")):
    return list(itertools.islice(stories.stories(seed, languages), count))


class ParticleTest(unittest.TestCase):
    def test_form_depends_on_final_consonant(self):
        cases = [
            ("모모", "은", "모모는"), ("별", "은", "별은"), ("토끼", "이", "토끼가"),
            ("곰", "이", "곰이"), ("나무", "을", "나무를"), ("책", "을", "책을"),
            ("오리", "과", "오리와"), ("펭귄", "과", "펭귄과"), ("숲", "으로", "숲으로"),
            ("바다", "으로", "바다로"), ("길", "으로", "길로"), ("지우", "아", "지우야"),
            ("한별", "아", "한별아"), ("곰", "이라는", "곰이라는"), ("여우", "이라는", "여우라는"),
            ("사슴", "이었", "사슴이었"), ("생쥐", "이었", "생쥐였"), ("봄", "이야", "봄이야"),
            ("서우", "이라", "서우라"), ("봄", "이라면", "봄이라면"),
        ]
        for word, particle, expected in cases:
            self.assertEqual(korean.attach(word, particle), expected)

    def test_word_without_hangul_is_refused(self):
        for word in ("", "Luna", "3", "ㄱ"):
            with self.assertRaises(ValueError):
                korean.attach(word, "은")

    def test_unknown_particle_is_refused(self):
        with self.assertRaisesRegex(ValueError, "처럼처럼"):
            korean.attach("별", "처럼처럼")

    def test_formal_changes_narration_and_leaves_speech(self):
        self.assertEqual(korean.formal('갔어요. "나도 갔어요." 하고 말했어요! 살았답니다.'),
                         '갔습니다. "나도 갔어요." 하고 말했습니다! 살았답니다.')
        self.assertEqual(korean.formal("좋아해요. 자라요. 싫어요."), "좋아해요. 자라요. 싫어요.")


class TemplateTest(unittest.TestCase):
    def test_slots_chosen_together_stay_together(self):
        plot = template.parse_plot("p", "a ; b = 1 ; one | 2 ; two\n== x\n{a} {b}\n")
        for seed in range(20):
            values = template.draw_slots(plot, random.Random(seed))
            self.assertIn((values["a"], values["b"]), [("1", "one"), ("2", "two")])

    def test_slots_that_must_differ_do(self):
        plot = template.parse_plot("p", "a & b & c = 1 | 2 | 3\n== x\n{a}\n")
        for seed in range(20):
            values = template.draw_slots(plot, random.Random(seed))
            self.assertEqual(sorted(values.values()), ["1", "2", "3"])

    def test_faults_are_named(self):
        with self.assertRaisesRegex(ValueError, "line 1: 'nonsense'"):
            template.parse_plot("p", "nonsense\n")
        with self.assertRaisesRegex(ValueError, "'empty' has no lines"):
            template.parse_plot("p", "== empty\n")
        with self.assertRaisesRegex(ValueError, "has 1 fields"):
            template.parse_plot("p", "a ; b = 1\n== x\ny\n")
        with self.assertRaisesRegex(ValueError, "'missing', which is not defined"):
            template.fill("{missing}", {}, language.English.inflect, random.Random(0))

    def test_english_forms(self):
        self.assertEqual(language.English.inflect("old owl", "a"), "an old owl")
        self.assertEqual(language.English.inflect("red hat", "a"), "a red hat")
        self.assertEqual(language.English.inflect("Mia", "s"), "Mia's")
        self.assertEqual(language.English.finish('the end. "who?" asked mia.\nit was', False),
                         'The end. "Who?" asked mia.\nIt was')


class StoriesTest(unittest.TestCase):
    def test_same_seed_same_stories(self):
        self.assertEqual([s.text for s in some(200)], [s.text for s in some(200)])
        self.assertNotEqual([s.text for s in some(20)], [s.text for s in some(20, seed=8)])

    def test_two_thousand_stories_are_distinct(self):
        told = some(2000)
        self.assertGreater(len({s.text for s in told}), 0.999 * len(told))
        for code in ("ko", "en"):
            names = {s.hero for s in told if s.language == code}
            plots = {s.plot for s in told if s.language == code}
            self.assertGreater(len(names), 150)
            self.assertGreaterEqual(len(plots), 12)

    def test_one_opening_leads_to_many_stories(self):
        for opening in ("옛날 옛적에 작은 마을에", "Once upon a time"):
            told = [s for s in some(2000) if s.text.startswith(opening)]
            self.assertGreater(len(told), 100)
            starts = {s.text[len(opening):][:24] for s in told}
            self.assertGreater(len(starts), 0.5 * len(told))
            self.assertGreaterEqual(len({s.plot for s in told}), 10)

    def test_hero_and_friend_keep_their_names(self):
        """Every capitalised or called name in a story is one that was cast."""
        for story in some(2000):
            self.assertGreaterEqual(story.text.count(story.hero), 2, story.text)
            self.assertNotEqual(story.hero[0], story.friend[0])
        ko = [name for name in Teller("ko")._words["names"] if len(name) > 1]
        for story in some(1000, languages=("ko",)):
            cast = story.hero + story.friend
            for other in ko:
                called = re.search(rf"(^|[ \"]){other}(는|가|를|와|야|의|라는|에게)[ .,!?]", story.text)
                if called and other not in cast:
                    self.fail(f"{other} is not in the cast of: {story.text}")

    def test_text_is_whole(self):
        for story in some(2000):
            text = story.text
            self.assertFalse(re.search(r"[{}\[\]|;:_]", text), text)
            self.assertNotIn("  ", text)
            self.assertEqual(text.count('"') % 2, 0, text)
            self.assertIn(text[-1], '.!?"', text)
            self.assertTrue(200 < len(text) < 1500, len(text))

    def test_korean_particles_in_stories_are_right(self):
        """No particle of the wrong kind behind any name or slot word that changes its form."""
        wrong = {"은": "는", "을": "를", "과": "와"}
        for story in some(1000, languages=("ko",)):
            for name in (story.hero, story.friend):
                final = korean.final_consonant(name) != 0
                for consonant, vowel in wrong.items():
                    bad = vowel if final else consonant
                    self.assertFalse(re.search(rf"{name}{bad}[ .,]", story.text), story.text)
            self.assertNotRegex(story.text, "이이라|[가-힣]우이라")

    def test_one_style_in_a_korean_story(self):
        formal = informal = 0
        for story in some(500, languages=("ko",)):
            narration = "".join(story.text.split('"')[::2])
            endings = set(re.findall(r"[가-힣](어요|습니다)[.!]", narration))
            self.assertEqual(len(endings), 1, story.text)
            formal += "습니다" in endings
            informal += "어요" in endings
        self.assertGreater(formal, 100)
        self.assertGreater(informal, 100)

    def test_a_sequel_keeps_the_hero(self):
        sequels = 0
        told = some(2000)
        for before, story in zip(told, told[1:]):
            if story.opening == "":
                sequels += 1
                self.assertEqual((before.hero, before.language), (story.hero, story.language))
        self.assertGreater(sequels, 200)

    def test_every_line_of_every_plot_can_be_told(self):
        """Fills each line on its own, so that a misspelt slot cannot hide behind chance."""
        for code in ("ko", "en"):
            teller = Teller(code)
            self.assertGreaterEqual(len(teller.plots), 12)
            rng = random.Random(3)
            for plot in teller.plots:
                hero, _, _ = teller._cast_hero(rng)
                values, _ = teller._cast_others(hero, rng)
                values.update(teller._time_slots(teller._openings[0], rng))
                values["opening"] = "x"
                for _ in range(20):
                    values.update(template.draw_slots(plot, rng))
                    for line in (line for beat in plot.beats for line in beat.lines):
                        self.assertNotIn("{", teller._fill(line, values, rng))


if __name__ == "__main__":
    unittest.main()
