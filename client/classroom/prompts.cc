#include "client/classroom/prompts.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace luna::classroom {
namespace {

constexpr std::array<std::string_view, 20> kKoreanNames = {
    "민준", "서연", "도윤", "하은", "지호", "수아", "예준", "지우", "시우", "유나",
    "건우", "채원", "현우", "다은", "준서", "소율", "태민", "나은", "은우", "가온"};
constexpr std::array<std::string_view, 20> kEnglishNames = {
    "Emma", "Liam",  "Olivia", "Noah", "Ava",  "Ethan", "Sophie", "Lucas", "Mia",  "Henry",
    "Zoe",  "Oscar", "Alice",  "Leo",  "Ruby", "Jack",  "Clara",  "Max",   "Ella", "Theo"};

Phrases Korean() {
  return {
      .openings = {"옛날 옛적에 작은 마을에", "옛날 옛적에", "깊은 숲속에", "바닷가 작은 마을에",
                   "어느 날 아침,", "언덕 위 작은 집에", "눈이 펑펑 내리는 날,", "달이 밝은 밤,"},
      .continuations = {" 그러던 어느 날", " 그때", " 다음 날", " 그런데"},
      .questions = {"하늘은 왜 파란가요?", "토끼와 거북이 이야기를 짧게 들려주세요.",
                    "물은 왜 얼어요?", "고양이에게 어울리는 이름을 세 개 지어 주세요.",
                    "달은 왜 모양이 바뀌나요?", "친구에게 보낼 생일 축하 편지를 써 주세요.",
                    "무지개는 어떻게 생기나요?", "가을을 주제로 짧은 시를 써 주세요."},
      .passage =
          "작은 마을에 빵을 굽는 할머니가 살았어요. 할머니는 아침마다 따뜻한 빵을 창가에 "
          "놓아두었어요. 하루는 비에 젖은 참새 한 마리가 창가로 날아왔어요. 할머니는 빵 한 조각을 "
          "떼어 참새에게 주었어요. 참새는 고맙다고 노래를 불렀어요. 그날부터 마을 사람들은 노래를 "
          "들으며 하루를 시작했어요. "};
}

Phrases English() {
  return {
      .openings = {"Once upon a time, in a small village,", "Once upon a time,",
                   "Deep in the forest,", "By the sea,", "One sunny day,",
                   "In a little house on the hill,", "On a snowy day,", "One quiet night,"},
      .continuations = {" The next day,", " Then", " One day,", " But"},
      .questions = {"Why is the sky blue?", "Tell me a very short story about a brave mouse.",
                    "Why does ice float?", "Give me three names for a puppy.",
                    "What makes a rainbow?", "Write a birthday wish for my best friend.",
                    "How do bees make honey?", "Write a short poem about the rain."},
      .passage =
          "An old baker lived at the end of a quiet street. Every morning she put a warm loaf on "
          "the window sill. One day a wet little sparrow landed beside it. The baker broke off a "
          "piece and gave it to the bird. The sparrow sang to say thank you. From then on the "
          "whole "
          "street woke up to a song. "};
}

}  // namespace

const Prompts& BuiltInPrompts() {
  static const Prompts prompts{{Korean(), English()}};
  return prompts;
}

absl::StatusOr<Prompts> ReadPrompts(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open the prompts file ", path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  }
  if (lines.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the prompts file ", path, " has no prompt"));
  }
  Prompts prompts = BuiltInPrompts();
  for (Phrases& phrases : prompts.by_language) {
    phrases.openings = phrases.continuations = phrases.questions = lines;
  }
  return prompts;
}

std::string LongText(std::string_view passage, uint32_t passage_tokens, uint32_t wanted_tokens) {
  const uint32_t times = std::max(1u, wanted_tokens / std::max(1u, passage_tokens));
  std::string text;
  for (uint32_t i = 0; i < times; ++i) text += passage;
  return text;
}

std::string StudentName(int index) {
  const size_t place = static_cast<size_t>(index) / 2;
  const auto& names = StudentLanguage(index) == Language::kKorean ? kKoreanNames : kEnglishNames;
  const size_t round = place / names.size();
  const std::string_view name = names[place % names.size()];
  return round == 0 ? std::string(name) : std::string(name) + " " + std::to_string(round + 1);
}

Language StudentLanguage(int index) {
  return index % 2 == 0 ? Language::kKorean : Language::kEnglish;
}

}  // namespace luna::classroom
