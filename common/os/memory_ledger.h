#ifndef STRATA_COMMON_OS_MEMORY_LEDGER_H_
#define STRATA_COMMON_OS_MEMORY_LEDGER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"

namespace strata {

// The maximum memory of a job, by purpose.
struct MemoryFormula {
  struct Part {
    std::string what;  // "held sums (4 - 1) x 4 x 64.0 KiB"
    uint64_t bytes = 0;
  };
  std::vector<Part> parts;

  // Both saturate: a job beyond 2^64 bytes does not fit anywhere.
  uint64_t total() const;
  void Add(std::string what, uint64_t bytes) { parts.push_back({std::move(what), bytes}); }
  void Add(const MemoryFormula& other);
  // "1.5 GiB: weights 500.0 MiB + momentum 500.0 MiB + ..."
  std::string ToString() const;
};

// "1.5 GiB", "64.0 KiB", "12 B".
std::string BytesText(uint64_t bytes);
// "8GiB", "512 MiB", "1e9", "1073741824". Errors: InvalidArgument naming the text.
absl::StatusOr<uint64_t> ParseBytes(const std::string& text);

// Returns a * b, saturated at UINT64_MAX.
uint64_t SaturatingProduct(uint64_t a, uint64_t b);

// The memory that a daemon has promised to its jobs: by formula, before they take it. Threads: one.
class MemoryLedger {
 public:
  explicit MemoryLedger(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // Promises `need` to the job, replacing its previous promise. Errors, after which the job keeps
  // what it had: ResourceExhausted, with formula, figure, other jobs' share and the limit.
  absl::Status Promise(JobId job, const MemoryFormula& need);
  // Unknown jobs are ignored.
  void Release(JobId job) { promised_.erase(job); }

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t promised_bytes() const;           // to all jobs
  uint64_t promised_bytes(JobId job) const;  // 0: none

 private:
  const uint64_t limit_bytes_;
  std::map<JobId, uint64_t> promised_;
};

}  // namespace strata

#endif  // STRATA_COMMON_OS_MEMORY_LEDGER_H_
