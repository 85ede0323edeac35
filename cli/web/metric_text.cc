#include "cli/web/metric_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace strata::cli::metrics {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

bool Follows(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the character that `text` begins with; 0: it begins with none.
size_t CharacterBytes(absl::string_view text) {
  const auto at = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xC2 && first <= 0xDF   ? 2
                       : (first & 0xF0) == 0xE0         ? 3
                       : first >= 0xF0 && first <= 0xF4 ? 4
                                                        : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if (!Follows(at(i))) return 0;
  }
  // Longer than needed, surrogates, and beyond U+10FFFF.
  if (first == 0xE0 && at(1) < 0xA0) return 0;
  if (first == 0xED && at(1) > 0x9F) return 0;
  if (first == 0xF0 && at(1) < 0x90) return 0;
  if (first == 0xF4 && at(1) > 0x8F) return 0;
  return bytes;
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return std::string(text, end.ptr);
}

std::string Head(const Family& family) {
  std::string text = absl::StrCat("# TYPE ", family.name, " ",
                                  family.kind == Kind::kCounter ? "counter" : "gauge", "\n");
  if (!family.unit.empty()) absl::StrAppend(&text, "# UNIT ", family.name, " ", family.unit, "\n");
  absl::StrAppend(&text, "# HELP ", family.name, " ", family.help, "\n");
  return text;
}

}  // namespace

std::string Label(absl::string_view name, absl::string_view value) {
  std::string text = absl::StrCat(name, "=\"");
  size_t taken = 0;
  while (!value.empty()) {
    const size_t bytes = CharacterBytes(value);
    const auto first = static_cast<unsigned char>(value[0]);
    const bool bad = bytes == 0 || (first < 0x20 && first != '\n') || first == 0x7F;
    const absl::string_view character = bad ? kReplacement : value.substr(0, bytes);
    taken += character.size();
    if (taken > kLabelBytesMax) break;
    value.remove_prefix(std::max<size_t>(bytes, 1));
    if (character == "\n") {
      text += "\\n";
      continue;
    }
    if (character == "\"" || character == "\\") text += '\\';
    absl::StrAppend(&text, character);
  }
  text += '"';
  return text;
}

void MetricText::Add(const Family& family, absl::string_view labels, double value) {
  AddText(family, labels, Number(value));
}

void MetricText::Add(const Family& family, absl::string_view labels, uint64_t value) {
  AddText(family, labels, absl::AlphaNum(value).Piece());
}

void MetricText::AddText(const Family& family, absl::string_view labels, absl::string_view value) {
  const auto [place, is_new] = places_.try_emplace(&family, slots_.size());
  if (is_new) slots_.push_back({.family = &family});
  Slot& slot = slots_[place->second];
  // Beyond the bound the family is left out in any case.
  if (slot.series > series_max_) {
    ++slot.series;
    return;
  }
  if (!slot.labels.insert(std::string(labels)).second) {
    ++slot.duplicates;
    return;
  }
  ++slot.series;
  absl::StrAppend(&slot.text, family.name, family.kind == Kind::kCounter ? "_total" : "");
  if (!labels.empty()) absl::StrAppend(&slot.text, "{", labels, "}");
  absl::StrAppend(&slot.text, " ", value, "\n");
}

std::string MetricText::Write() const {
  std::vector<const Slot*> order;
  for (const Slot& slot : slots_) order.push_back(&slot);
  std::stable_sort(order.begin(), order.end(), [](const Slot* a, const Slot* b) {
    return a->family->detail < b->family->detail;
  });
  std::string text;
  size_t written = 1;  // kLeftOut's own
  uint64_t left_out = 0;
  for (const Slot* slot : order) {
    left_out += slot->duplicates;
    if (written + slot->series > series_max_) {
      left_out += slot->series;
      continue;
    }
    written += slot->series;
    absl::StrAppend(&text, Head(*slot->family), slot->text);
  }
  absl::StrAppend(&text, Head(kLeftOut), kLeftOut.name, " ", left_out, "\n# EOF\n");
  return text;
}

}  // namespace strata::cli::metrics
