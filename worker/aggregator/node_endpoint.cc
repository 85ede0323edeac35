#include "worker/aggregator/node_endpoint.h"

#include <optional>
#include <string>
#include <utility>

#include "common/job/exchange/connections.h"
#include "common/job/exchange/job_keys.h"
#include "common/job/exchange/same_host.h"
#include "common/limits/descriptors.h"
#include "common/log.h"
#include "common/transport/sealed/sealed_endpoint.h"
#include "common/transport/zmq/zmq_endpoint.h"

namespace strata::worker {

std::shared_ptr<transport::RegionMemory> MemoryForPeers(const proto::Job& job) {
  if (job.same_host() == proto::Job::TCP) return nullptr;
  absl::StatusOr<std::shared_ptr<transport::RegionMemory>> memory =
      transport::RegionMemory::Create();
  if (memory.ok()) return *std::move(memory);
  LogWarning("payloads for peers of this host go over TCP: %s",
             std::string(memory.status().message()));
  return nullptr;
}

absl::StatusOr<std::unique_ptr<transport::Endpoint>> ConnectingEndpoint(
    const proto::JobRecord& record, uint32_t local_ranks,
    std::shared_ptr<transport::SharedSegment> gradients) {
  const absl::Status descriptors = EnsureDescriptors(
      "strata aggregator",
      AggregatorDescriptors(local_ranks, record.placement().shard_endpoints_size(),
                            JobConnections(record.job())));
  if (!descriptors.ok()) return descriptors;
  transport::ZmqOptions options;
  options.memory = MemoryForPeers(record.job());
  if (options.memory != nullptr && gradients != nullptr) options.memory->Add(std::move(gradients));
  auto endpoint = transport::CreateZmqEndpoint(options);
  return endpoint.ok() ? Protected(record, "", *std::move(endpoint)) : std::move(endpoint);
}

absl::StatusOr<std::unique_ptr<transport::Endpoint>> Protected(
    const proto::JobRecord& record, const std::string& own_address,
    std::unique_ptr<transport::Endpoint> endpoint) {
  const absl::StatusOr<std::optional<seal::JobKeys>> keys = KeysOf(record, own_address);
  if (!keys.ok()) return keys.status();
  if (!keys->has_value()) return endpoint;
  using transport::SealedEndpoint;
  auto sealed =
      std::make_unique<SealedEndpoint>(std::move(endpoint), SealedEndpoint::Unsealed::kNone);
  if (absl::Status known = sealed->Protect(JobId(record.job_id()), **keys); !known.ok()) {
    return known;
  }
  return sealed;
}

bool MayLendGradients(const proto::Job& job) {
  return job.exchange() == proto::Job::PARAMETER_SERVER && !PushesOutliveAnswers(job) &&
         !job.consistency().lazy().double_buffering();
}

}  // namespace strata::worker
