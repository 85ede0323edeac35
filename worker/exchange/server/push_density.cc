#include "worker/exchange/server/push_density.h"

#include "compression/job_compression.h"
#include "worker/exchange/core/node_share.h"

namespace strata::worker {
namespace {

// Of the job's epochs, what one sample of the node stands for.
double EpochsPerSample(const proto::JobRecord& record, NodeId node) {
  if (record.samples_per_epoch() == 0) return 0;
  return NodeShare::Of(record, node).JobSamplesPerOwn() /
         static_cast<double>(record.samples_per_epoch());
}

}  // namespace

PushDensity::PushDensity(const proto::JobRecord& record, NodeId node, uint32_t chunks)
    : encoding_(record.job().push()),
      density_(kernels::MakeCompression(encoding_, kernels::Feedback::kResidual).density),
      epochs_per_sample_(EpochsPerSample(record, node)),
      samples_(chunks) {}

double PushDensity::Next(ChunkId chunk, uint32_t samples) {
  if (encoding_.codec() != proto::Encoding::DGC) return density_;
  uint64_t& before = samples_[chunk.value()];
  const double epochs = static_cast<double>(before) * epochs_per_sample_;
  before += samples;
  return kernels::DgcDensityAt(encoding_, epochs);
}

}  // namespace strata::worker
