#ifndef STRATA_TRAINING_TRAINER_HASH_LOG_H_
#define STRATA_TRAINING_TRAINER_HASH_LOG_H_

#include <cstdint>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace strata::worker {

// A file of lines "STEP HASH", the XXH3 hash of all weights (16 hexadecimal digits) before each
// step, and "final HASH": two runs that agree in it went through the same weights bit for bit.
class HashLog {
 public:
  // RUN_DIR/weights.node-N.hashes, begun anew by Open.
  HashLog(const std::string& run_dir, uint32_t node);

  // Errors, also of the others, name the path.
  absl::Status Open();

  absl::Status Add(uint64_t step, absl::Span<const float> weights);
  absl::Status AddFinal(absl::Span<const float> weights);

 private:
  absl::Status Write(const std::string& what, absl::Span<const float> weights);

  const std::string path_;
  std::ofstream file_;
};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TRAINER_HASH_LOG_H_
