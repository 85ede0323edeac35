#include "worker/aggregator/exchange_text.h"

#include "absl/strings/str_cat.h"
#include "common/counted.h"

namespace strata::worker {

const char* PhaseName(Exchange::Phase phase) {
  switch (phase) {
    case Exchange::Phase::kSeeding:
      return "seeding";
    case Exchange::Phase::kTraining:
      return "training";
    default:
      return "finishing";
  }
}

std::string WithWhom(const proto::JobRecord& record) {
  const proto::Job& job = record.job();
  if (job.exchange() == proto::Job::NCCL) {
    return absl::StrCat("with ", Counted(job.ranks() - 1, "other rank"), ", by NCCL");
  }
  const std::string summed = job.node_sum() == proto::NodeSum::NCCL ? ", summed by NCCL" : "";
  if (job.exchange() != proto::Job::RING) {
    return absl::StrCat("over ", Counted(record.placement().shard_endpoints_size(), "shard"),
                        summed);
  }
  return absl::StrCat("with ", Counted(record.view().nodes_size() - 1, "other node"), ", ",
                      proto::AllReduce::Algorithm_Name(record.ring().algorithm()), summed);
}

}  // namespace strata::worker
