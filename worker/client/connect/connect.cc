#include "worker/client/connect/connect.h"

#include <utility>

#include "kernels/kernels.h"
#include "worker/client/client.h"
#include "worker/client/connect/arena_client.h"
#include "worker/client/link/aggregator_link.h"
#include "worker/client/link/local_link.h"
#include "worker/client/nccl/alone_link.h"
#include "worker/client/nccl/nccl_link.h"
#include "worker/client/nccl/node_reducer.h"
#include "worker/contract/agent_channel.h"
#include "worker/contract/launch.h"

namespace strata::client {
namespace {

absl::StatusOr<std::unique_ptr<RankLink>> LinkOf(const proto::Launch& launch,
                                                 const std::shared_ptr<AgentChannel>& agent) {
  const proto::Job& job = launch.record().job();
  if (job.exchange() == proto::Job::NCCL) return nccl::NcclLink::Connect(launch);
  if (job.exchange() != proto::Job::NONE) {
    return AggregatorLink::Connect(launch, nccl::CreateNodeReducer);
  }
  if (job.device() == proto::Job::GPU) return nccl::AloneLink::Create(launch, agent);
  return std::make_unique<LocalLink>(launch, agent, kernels::Cpu());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const proto::Launch& launch) {
  auto agent = std::make_shared<AgentChannel>(launch.channel_fd());
  absl::StatusOr<std::unique_ptr<RankLink>> link = LinkOf(launch, agent);
  if (!link.ok()) return link.status();
  return std::make_unique<ArenaClient>(launch, std::move(agent), *std::move(link));
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& launch_file) {
  absl::StatusOr<proto::Launch> launch = ReadLaunch(launch_file);
  if (!launch.ok()) return launch.status();
  return ConnectTo(*launch);
}

}  // namespace strata::client
