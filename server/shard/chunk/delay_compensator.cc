#include "server/shard/chunk/delay_compensator.h"

#include <algorithm>

#include "common/copies.h"
#include "common/copy_floats.h"
#include "common/require.h"

namespace strata::server {

void DelayCompensator::OnSeed() {
  given_.GiveToAll(chunk_.weights);
  if (!how_.adaptive) return;
  mean_square_ = chunk_.pool.AllocateFloats(chunk_.weights.elements());
  std::fill_n(mean_square_.get(), chunk_.weights.elements(), 0.0f);
}

Bytes DelayCompensator::Correct(const Push& push, const Bytes& sum) const {
  const size_t count = chunk_.weights.elements();
  STRATA_REQUIRE(sum.float_count() == count);
  const std::shared_ptr<float> mean = chunk_.pool.AllocateFloats(count);
  chunk_.kernels.compensate(how_, static_cast<float>(1.0 / push.samples), sum.floats(),
                            chunk_.weights.weights().floats(), given_[push.node].weights.floats(),
                            mean_square_.get(), mean.get(), count);
  return AsBytes(mean, count);
}

Bytes DelayCompensator::MeanSquare() const {
  if (mean_square_ == nullptr) return Bytes();
  const size_t count = chunk_.weights.elements();
  return AsBytes(CopyFloats(CopyReason::kCut, chunk_.pool, mean_square_.get(), count), count);
}

void DelayCompensator::RestoreMeanSquare(const Bytes& mean_square) {
  if (mean_square_ == nullptr || mean_square.empty()) return;
  CopyBytes(CopyReason::kSeed, mean_square_.get(), mean_square.data(), mean_square.size());
}

void DelayCompensator::AddTo(ChunkCopy* copy) const {
  given_.AddTo(copy);
  copy->head.set_mean_square(copy->Add(MeanSquare()));
}

void DelayCompensator::Restore(ChunkCopyReader* reader) {
  given_.Restore(reader);
  RestoreMeanSquare(reader->Floats(reader->head().mean_square(), "the mean square"));
}

size_t DelayCompensator::bytes() const {
  const size_t mean_squares =
      mean_square_ == nullptr ? 0 : chunk_.weights.elements() * sizeof(float);
  return given_.bytes(chunk_.weights) + mean_squares;
}

}  // namespace strata::server
