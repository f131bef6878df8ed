#include "client/classroom/plan.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace luna::classroom {
namespace {

// Long enough to be seen, short enough for the class to wait.
constexpr absl::Duration kReadPausesLimit = absl::Seconds(3);

// The library's distributions give different numbers with different libraries; these do not.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t stream) {
    std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                           static_cast<uint32_t>(stream)};
    engine_.seed(sequence);
  }

  uint64_t Number() { return engine_(); }
  size_t Below(size_t n) { return engine_() % n; }
  double Fraction() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // [0, 1)
  absl::Duration Around(absl::Duration mean) { return mean * (0.5 + Fraction()); }

 private:
  std::mt19937_64 engine_;
};

const std::string& Pick(Dice& dice, const std::vector<std::string>& from) {
  return from[dice.Below(from.size())];
}

// The seats in random order: the first pastes, the second reads slowly, a tenth leaves.
std::vector<Manner> MakeManners(int students, uint64_t seed) {
  std::vector<Manner> manners(static_cast<size_t>(students), Manner::kOrdinary);
  if (students < 4) return manners;
  std::vector<size_t> seats(manners.size());
  std::iota(seats.begin(), seats.end(), size_t{0});
  Dice dice(seed, 0);
  for (size_t i = seats.size() - 1; i > 0; --i) std::swap(seats[i], seats[dice.Below(i + 1)]);
  manners[seats[0]] = Manner::kPastes;
  manners[seats[1]] = Manner::kReadsSlowly;
  const size_t leaving = std::max<size_t>(1, seats.size() / 10);
  for (size_t i = 0; i < leaving; ++i) manners[seats[2 + i]] = Manner::kLeaves;
  return manners;
}

// The first opening is the class's own: most stories begin alike and go different ways.
std::string PickOpening(Dice& dice, const std::vector<std::string>& openings) {
  const bool common = dice.Fraction() < 0.5;
  return common ? openings.front() : Pick(dice, openings);
}

}  // namespace

std::string_view Describe(Manner manner) {
  switch (manner) {
    case Manner::kOrdinary:
      return "";
    case Manner::kLeaves:
      return "left in the middle of an answer";
    case Manner::kPastes:
      return "pasted a long text";
    case Manner::kReadsSlowly:
      return "reads slowly";
  }
  return "";
}

std::vector<StudentPlan> MakePlan(const Options& options, const Prompts& prompts, bool chat,
                                  const std::array<std::string, 2>& long_texts) {
  const std::vector<Manner> manners = MakeManners(options.students, options.seed);
  std::vector<StudentPlan> plans;
  for (int i = 0; i < options.students; ++i) {
    Dice dice(options.seed, static_cast<uint64_t>(i) + 1);
    StudentPlan plan;
    plan.name = StudentName(i);
    plan.language = StudentLanguage(i);
    plan.manner = manners[static_cast<size_t>(i)];
    plan.arrives =
        options.arrive_over * (static_cast<double>(i) / std::max(1, options.students - 1));
    plan.temperature = options.temperature.value_or(chat ? 0.3f : 0.8f);
    plan.leaves_after_tokens = 3 + static_cast<uint32_t>(dice.Below(10));
    plan.read_pause = absl::Milliseconds(60 + static_cast<int64_t>(dice.Below(60)));
    plan.read_pauses_limit = kReadPausesLimit;
    const Phrases& phrases = prompts.In(plan.language);
    for (int turn = 0; turn < options.turns; ++turn) {
      TurnPlan turn_plan;
      turn_plan.text = chat ? Pick(dice, phrases.questions) : PickOpening(dice, phrases.openings);
      turn_plan.continuation = chat ? turn_plan.text : Pick(dice, phrases.continuations);
      turn_plan.think = turn == 0 ? absl::ZeroDuration() : dice.Around(options.think_time);
      turn_plan.seed = dice.Number();
      if (turn == 0 && plan.manner == Manner::kPastes) {
        turn_plan.text = long_texts[static_cast<size_t>(plan.language)] + turn_plan.text;
      }
      plan.turns.push_back(std::move(turn_plan));
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace luna::classroom
