#ifndef STRATA_SERVER_SHARD_SUM_RING_ACCUMULATOR_H_
#define STRATA_SERVER_SHARD_SUM_RING_ACCUMULATOR_H_

#include <cstddef>
#include <vector>

#include "server/shard/sum/accumulator.h"

namespace strata::server {

// The sum as a ring of the same nodes would make it: slice k of the chunk
// (common/job/exchange/slices.h) is added from leaf k + 1 on, round to leaf k. Each leaf is the
// first of a slice, so that all are held until the last one is there.
class RingAccumulator final : public Accumulator {
 public:
  RingAccumulator(const kernels::Kernels& kernels, BufferPool& pool, size_t leaves,
                  size_t elements);

  // Checks the leaf at once: nothing is added before the last leaf is there.
  std::vector<size_t> Add(size_t leaf, Addend value) override;
  std::vector<size_t> Check() override { return {}; }
  Bytes Finish() override;
  std::vector<SumPart> Parts() override;
  absl::Status Restore(std::vector<SumPart> parts) override;
  size_t held() const override;
  size_t held_bytes() const override { return held() * elements_ * sizeof(float); }

 private:
  const kernels::Kernels& kernels_;
  BufferPool& pool_;
  const size_t elements_;
  std::vector<Bytes> leaves_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SUM_RING_ACCUMULATOR_H_
