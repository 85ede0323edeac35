#include "training/trainer/hash_log.h"

#include <cerrno>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/file/atomic_file.h"

namespace strata::worker {

HashLog::HashLog(const std::string& run_dir, uint32_t node)
    : path_(absl::StrCat(run_dir, "/weights.node-", node, ".hashes")) {}

absl::Status HashLog::Open() {
  errno = 0;
  file_.open(path_, std::ios::trunc);
  return file_ ? absl::OkStatus() : FileError(errno, path_);
}

absl::Status HashLog::Add(uint64_t step, absl::Span<const float> weights) {
  return Write(absl::StrCat(step), weights);
}

absl::Status HashLog::AddFinal(absl::Span<const float> weights) { return Write("final", weights); }

absl::Status HashLog::Write(const std::string& what, absl::Span<const float> weights) {
  const XXH64_hash_t hash = XXH3_64bits(weights.data(), weights.size() * sizeof(float));
  errno = 0;
  file_ << absl::StrFormat("%s %016x\n", what, hash) << std::flush;
  return file_ ? absl::OkStatus() : FileError(errno, path_);
}

}  // namespace strata::worker
