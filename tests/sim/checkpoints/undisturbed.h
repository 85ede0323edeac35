#ifndef STRATA_TESTS_SIM_CHECKPOINTS_UNDISTURBED_H_
#define STRATA_TESTS_SIM_CHECKPOINTS_UNDISTURBED_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/checkpoint/part_writer.h"
#include "common/image/chunk_image.h"
#include "tests/sim/checkpoints/job_run.h"

namespace strata::sim {

// A run of a job that nothing stops, to compare others with. What it returns is empty, or
// "INVARIANT: what is wrong".
class Undisturbed {
 public:
  // `one` outlives it.
  explicit Undisturbed(const JobCase& one) : case_(one) {}

  std::string Run(const proto::JobRecord& record, uint64_t seed);
  // Events that it took.
  int events() const { return events_; }

  // These images, which another run goes on from, have the bits of their clock.
  std::string CheckImages(const std::vector<ChunkImage>& images) const;
  // Another run has ended as this one did.
  std::string CheckEnd(const JobRun& run) const;

 private:
  void KeepImages(const PartWriter::Part& part);

  const JobCase& case_;
  std::vector<std::vector<float>> weights_;                    // of nodes
  std::map<uint64_t, std::map<uint64_t, ChunkImage>> images_;  // by clock and range
  int events_ = 0;
};

// Returns the bytes of a file.
std::string BytesOfFile(const ImageFile& file);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECKPOINTS_UNDISTURBED_H_
