#include <memory>
#include <utility>

#include "kernels/kernels.h"
#include "worker/client/agent_line.h"
#include "worker/client/aggregator_link.h"
#include "worker/client/arena_client.h"
#include "worker/client/client.h"
#include "worker/client/launch.h"
#include "worker/client/local_link.h"

namespace strata::client {

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& launch_file) {
  absl::StatusOr<proto::Launch> launch = ReadLaunch(launch_file);
  if (!launch.ok()) return launch.status();
  auto agent = std::make_shared<AgentLine>(launch->channel_fd());
  std::unique_ptr<RankLink> link;
  if (launch->record().job().exchange() == proto::Job::NONE) {
    link = std::make_unique<LocalLink>(*launch, agent, kernels::Cpu());
  } else {
    absl::StatusOr<std::unique_ptr<AggregatorLink>> joined = AggregatorLink::Connect(*launch);
    if (!joined.ok()) return joined.status();
    link = *std::move(joined);
  }
  return std::make_unique<ArenaClient>(*std::move(launch), std::move(agent), std::move(link));
}

}  // namespace strata::client
