#include "common/os/memory_ledger.h"

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace strata {
namespace {

uint64_t SaturatingSum(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }

struct Unit {
  const char* name;
  uint64_t bytes;
};
constexpr Unit kUnits[] = {{"TiB", uint64_t{1} << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20},
                           {"KiB", 1 << 10},           {"B", 1},         {"", 1}};

}  // namespace

uint64_t SaturatingProduct(uint64_t a, uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

uint64_t MemoryFormula::total() const {
  uint64_t sum = 0;
  for (const Part& part : parts) sum = SaturatingSum(sum, part.bytes);
  return sum;
}

void MemoryFormula::Add(const MemoryFormula& other) {
  parts.insert(parts.end(), other.parts.begin(), other.parts.end());
}

std::string MemoryFormula::ToString() const {
  return absl::StrCat(BytesText(total()), ": ",
                      absl::StrJoin(parts, " + ", [](std::string* out, const Part& part) {
                        absl::StrAppend(out, part.what, " ", BytesText(part.bytes));
                      }));
}

std::string BytesText(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (unit.bytes > 1 && bytes >= unit.bytes) {
      return absl::StrFormat("%.1f %s", static_cast<double>(bytes) / unit.bytes, unit.name);
    }
  }
  return absl::StrCat(bytes, " B");
}

absl::StatusOr<uint64_t> ParseBytes(const std::string& text) {
  size_t end = text.size();
  while (end > 0 && absl::ascii_isalpha(text[end - 1])) --end;
  const std::string unit_name = text.substr(end);
  const std::string number(absl::StripAsciiWhitespace(text.substr(0, end)));
  double value = 0;
  const bool parsed = absl::SimpleAtod(number, &value) && std::isfinite(value) && value >= 0;
  for (const Unit& unit : kUnits) {
    if (!parsed || unit_name != unit.name) continue;
    const double bytes = value * unit.bytes;
    if (bytes < 9e18) return static_cast<uint64_t>(bytes);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a number of bytes such as 512MiB or 8GiB"));
}

absl::Status MemoryLedger::Promise(JobId job, const MemoryFormula& need) {
  const uint64_t others = promised_bytes() - promised_bytes(job);
  if (SaturatingSum(others, need.total()) > limit_bytes_) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "it needs up to %s; other jobs are promised %s of the limit of %s (--memory-limit)",
        need.ToString(), BytesText(others), BytesText(limit_bytes_)));
  }
  promised_[job] = need.total();
  return absl::OkStatus();
}

uint64_t MemoryLedger::promised_bytes() const {
  uint64_t sum = 0;
  for (const auto& [job, bytes] : promised_) sum += bytes;
  return sum;
}

uint64_t MemoryLedger::promised_bytes(JobId job) const {
  const auto it = promised_.find(job);
  return it == promised_.end() ? 0 : it->second;
}

}  // namespace strata
