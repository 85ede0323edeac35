#include "worker/aggregator/node_endpoint.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/connections.h"
#include "common/job/job_keys.h"
#include "common/log.h"
#include "common/os/descriptors.h"
#include "common/require.h"
#include "common/transport/sealed_endpoint.h"
#include "common/transport/zmq/zmq_endpoint.h"

namespace strata::worker {
namespace {

// Listens on the first free port.
absl::StatusOr<int> ListenAt(const proto::ListenAt& at, transport::Endpoint* endpoint) {
  absl::StatusOr<int> port = absl::AlreadyExistsError("");
  for (uint32_t p = at.port_first(); p <= at.port_last() && absl::IsAlreadyExists(port.status());
       ++p) {
    port = endpoint->Listen(absl::StrCat("tcp://", at.host(), ":", p));
  }
  if (!absl::IsAlreadyExists(port.status()) || at.port_first() == at.port_last()) return port;
  return absl::AlreadyExistsError(absl::StrCat("no port from ", at.port_first(), " to ",
                                               at.port_last(), " of ", at.host(),
                                               " is free for the other nodes (--peer-port)"));
}

}  // namespace

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
                            ShardConnections(record)));
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

absl::StatusOr<std::unique_ptr<RingPort>> RingPort::Open(const proto::Launch& launch, int wake_fd,
                                                         const ClockInterface* clock) {
  const uint32_t connections = JobConnections(launch.record().job());
  absl::Status descriptors =
      EnsureDescriptors("strata aggregator", RingDescriptors(launch.local_ranks(), connections));
  if (!descriptors.ok()) return descriptors;
  transport::ZmqOptions options;
  options.memory = MemoryForPeers(launch.record().job());
  options.connections_max = kRingPeersMax * connections;
  options.strangers_max = kConnectionSlack;
  options.stranger_bytes_max = kStrangerBytesMax;
  options.stranger_timeout = kStrangerTimeout;
  absl::StatusOr<std::unique_ptr<transport::Endpoint>> endpoint =
      transport::CreateZmqEndpoint(options);
  if (!endpoint.ok()) return endpoint.status();
  absl::StatusOr<int> port = ListenAt(launch.listen(), endpoint->get());
  if (!port.ok()) return port.status();
  const std::string address = absl::StrCat("tcp://", launch.listen().advertise(), ":", *port);
  endpoint = Protected(launch.record(), address, *std::move(endpoint));
  if (!endpoint.ok()) return endpoint.status();
  if (wake_fd >= 0) (*endpoint)->WatchFd(wake_fd);
  return std::unique_ptr<RingPort>(new RingPort(launch, *std::move(endpoint), address, clock));
}

RingPort::RingPort(const proto::Launch& launch, std::unique_ptr<transport::Endpoint> endpoint,
                   std::string address, const ClockInterface* clock)
    : node_(launch.node()),
      incarnation_(launch.incarnation()),
      endpoint_(std::move(endpoint)),
      address_(std::move(address)),
      clock_(clock) {}

RingPort::~RingPort() = default;

absl::Status RingPort::Measure(const proto::JobRecord& record) {
  if (probe_) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<LinkProbe>> probe =
      LinkProbe::Create({.record = record, .node = node_, .incarnation = incarnation_});
  if (!probe.ok()) return probe.status();
  probe_ = *std::move(probe);
  driver_ = std::make_unique<LinkDriver>(
      probe_.get(), endpoint_.get(), clock_,
      [](const NodeAction&, CoreActions*) { return absl::OkStatus(); });
  return driver_->Run([&](absl::Time now, CoreActions* actions) {
    return probe_->OnLinkEvent(LinkEvent::Start(), now, actions);
  });
}

std::optional<proto::LinkMeasured> RingPort::TakeMeasured() {
  if (!probe_ || !probe_->result() || taken_) return std::nullopt;
  taken_ = true;
  proto::LinkMeasured measured;
  measured.set_latency_us(probe_->result()->latency_s * 1e6);
  measured.set_bytes_per_s(probe_->result()->bytes_per_s);
  return measured;
}

absl::Status RingPort::Poll(absl::Duration timeout) { return driver_->Poll(timeout); }

transport::Refusals RingPort::refusals() const {
  if (!endpoint_) return {};
  return driver_ ? driver_->refusals() : transport::RefusalsOf(endpoint_->use());
}

std::unique_ptr<transport::Endpoint> RingPort::Release() {
  if (driver_) {
    const absl::Status closed = driver_->Run([&](absl::Time, CoreActions* actions) {
      probe_->Close(&actions->wire);
      return absl::OkStatus();
    });
    STRATA_REQUIRE(closed.ok());
  }
  return std::move(endpoint_);
}

}  // namespace strata::worker
