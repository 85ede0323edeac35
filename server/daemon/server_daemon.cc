#include "server/daemon/server_daemon.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "common/control/session.h"
#include "common/image/chunk_image.h"
#include "common/job/job.h"
#include "common/job/trace_log.h"
#include "common/log.h"
#include "common/os/descriptors.h"
#include "common/os/process_use.h"

namespace strata::server {

using control::AddRefusal;
using control::AddResource;
using control::AddSessionResources;

absl::Status ServerOptions::Validate() const {
  if (name.empty()) return absl::InvalidArgumentError("name: must not be empty");
  if (listen.empty()) return absl::InvalidArgumentError("listen: must not be empty");
  if (address.empty()) return absl::InvalidArgumentError("advertise: must not be empty");
  if (shards < 1 || shards > kShardsPerServerMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("shards: ", shards, " is not in 1 to ", kShardsPerServerMax));
  }
  if (port > 65535 || (port != 0 && port_last == 0 && port + shards - 1 > 65535)) {
    return absl::InvalidArgumentError(
        absl::StrCat("port: ", port, " and ", shards, " shards go beyond port 65535"));
  }
  if (port_last > 65535 || (port_last != 0 && (port == 0 || port_last < port + shards - 1))) {
    return absl::InvalidArgumentError(
        absl::StrCat("port: ", port, "-", port_last, " has too few ports for ", shards, " shards"));
  }
  return limits.Validate();
}

absl::StatusOr<std::unique_ptr<ServerDaemon>> ServerDaemon::Create(
    ServerOptions options, ServerParts parts, std::function<void(const absl::Status&)> on_lost) {
  absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  return std::unique_ptr<ServerDaemon>(
      new ServerDaemon(std::move(options), std::move(parts), std::move(on_lost)));
}

ServerDaemon::ServerDaemon(ServerOptions options, ServerParts parts,
                           std::function<void(const absl::Status&)> on_lost)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      on_lost_(std::move(on_lost)),
      checkpoints_(std::make_unique<JobCheckpoints>(
          JobCheckpoints::Calls{.open = parts_.open_store,
                                .tell =
                                    [this](const proto::CheckpointPart& part) {
                                      proto::DaemonMessage message;
                                      *message.mutable_checkpoint_part() = part;
                                      session_->Send(std::move(message));
                                    },
                                .let_go =
                                    [this](JobId job, ShardId shard, uint64_t clock) {
                                      for (auto& thread : shards_)
                                        thread->ReleaseCut(job, shard, clock);
                                    },
                                .let_go_rows =
                                    [this](JobId job, ShardId shard) {
                                      for (auto& thread : shards_) thread->ReleaseRows(job, shard);
                                    }})),
      core_(options_.shards, options_.limits, this) {}

ServerDaemon::~ServerDaemon() { Stop(); }

absl::Status ServerDaemon::StartShards() {
  uint32_t port = options_.port;
  for (uint32_t i = 0; i < options_.shards; ++i) {
    // Without a range, a port in use is an error.
    absl::Status status = StartShard(&port, options_.port_last == 0 ? port : options_.port_last);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ServerDaemon::StartShard(uint32_t* port, uint32_t last) {
  while (*port <= last) {
    ShardThread::Options shard;
    shard.listen = absl::StrCat("tcp://", options_.listen, ":", *port);
    shard.on_cut = [this](ShardCut cut) { checkpoints_->OnCut(std::move(cut)); };
    shard.on_rows = [this](ShardRowsPiece piece) { checkpoints_->OnRows(std::move(piece)); };
    *port += options_.port == 0 ? 0 : 1;
    auto endpoint = parts_.make_endpoint();
    if (!endpoint.ok()) return endpoint.status();
    auto started = std::make_unique<ShardThread>(shard, *parts_.kernels, *std::move(endpoint));
    const absl::Status listens = started->Start();
    if (listens.ok()) shards_.push_back(std::move(started));
    if (!absl::IsAlreadyExists(listens) || options_.port_last == 0) return listens;
  }
  return absl::AlreadyExistsError(absl::StrCat("no port from ", options_.port, " to ", last,
                                               " is free for shard ", shards_.size(), " of ",
                                               options_.shards));
}

absl::Status ServerDaemon::Start() {
  absl::Status status =
      EnsureDescriptors("strata server", ServerDescriptors(options_.shards, options_.limits));
  if (status.ok()) status = StartShards();
  if (!status.ok()) return status;
  control::Session::Options session;
  session.coordinator = options_.coordinator;
  session.credentials = options_.credentials;
  session.connect_deadline = options_.connect_deadline;
  session.reconnect_deadline = options_.reconnect_deadline;
  session.registration.set_role(proto::SERVER);
  session.registration.set_name(options_.name);
  session.registration.set_address(options_.address);
  session.registration.set_host(options_.link.host);
  session.registration.set_link_bytes_per_s(options_.link.bytes_per_s);
  for (int port : ports()) session.registration.add_shard_ports(port);
  control::Session::Callbacks callbacks;
  callbacks.on_message = [this](const proto::CoordinatorMessage& message) {
    core_.OnMessage(message);
    is_idle_ = core_.RunningJobs().empty();
  };
  callbacks.heartbeat = [this] {
    SendTraces();
    return MakeHeartbeat();
  };
  callbacks.running_jobs = [this] { return core_.RunningJobs(); };
  callbacks.on_lost = on_lost_;
  session_ = control::Session::Create(std::move(session), std::move(callbacks));
  return session_->Start();
}

void ServerDaemon::Leave() {
  proto::DaemonMessage message;
  message.mutable_leaving();
  session_->Send(std::move(message));
}

void ServerDaemon::Stop() {
  if (session_ != nullptr) session_->Stop();
  checkpoints_->Stop();
  for (auto& shard : shards_) shard->Stop();
}

std::vector<int> ServerDaemon::ports() const {
  std::vector<int> ports;
  for (const auto& shard : shards_) ports.push_back(shard->port());
  return ports;
}

absl::Status ServerDaemon::BeginInstall(size_t thread, const proto::JobRecord& record,
                                        ShardId shard, ShardCopy copy) {
  const bool may_trace = copy != ShardCopy::kEmptyBackup;
  if (may_trace && IsTraced(record.job())) traced_.insert(JobId(record.job_id()));
  checkpoints_->Begin(record);
  return shards_[thread]->BeginInstall(record, shard, copy).status();
}

absl::Status ServerDaemon::EndInstall(size_t thread, JobId job) {
  return shards_[thread]->EndInstall(job);
}

void ServerDaemon::Load(const proto::InstallJob& install) {
  std::vector<ShardId> shards;
  std::set<size_t> threads;
  for (const OwnCopy& own : CopiesOf(install)) {
    shards.push_back(own.shard);
    threads.insert(own.thread);
  }
  const auto give = [this, threads, job = JobId(install.record().job_id())](const auto& images) {
    absl::Status taken;
    for (const size_t thread : threads) {
      if (taken.ok()) taken = shards_[thread]->InstallMore(job, images);
    }
    return taken;
  };
  JobCheckpoints::LoadCalls calls;
  calls.take = give;
  calls.take_rows = give;
  calls.finish = [this, install] { return core_.EndInstall(install); };
  calls.tell = [this, install](const absl::Status& status) {
    core_.TellInstalled(install, status);
  };
  checkpoints_->Load(install.record(), shards, std::move(calls));
}

absl::Status ServerDaemon::MoveShard(size_t thread, const proto::MoveShard& move) {
  return shards_[thread]->Call(
      [&](ShardCore& core, auto* actions) { return core.Move(move, actions); });
}

absl::Status ServerDaemon::FillNext(size_t thread, const proto::FillNext& fill) {
  return shards_[thread]->Call([&](ShardCore& core, auto* actions) {
    return core.FillNext(JobId(fill.job_id()), ShardId(fill.shard()), fill.generation(),
                         fill.endpoint(), actions);
  });
}

absl::Status ServerDaemon::ChangeView(size_t thread, const proto::ViewChange& change) {
  return shards_[thread]->Call([&](ShardCore& core, auto*) { return core.ChangeView(change); });
}

absl::StatusOr<bool> ServerDaemon::RemoveShard(size_t thread, JobId job, ShardId shard,
                                               uint32_t generation) {
  bool is_left = false;
  const absl::Status asked = shards_[thread]->Call([&](ShardCore& core, auto* actions) {
    is_left = core.RemoveShard(job, shard, generation, actions);
    return absl::OkStatus();
  });
  if (!asked.ok()) return asked;
  return is_left;
}

void ServerDaemon::RemoveJob(JobId job) {
  SendTraces();
  if (traced_.erase(job) > 0) trace_sender_.Send(TraceEnd(job.value()), session_.get());
  for (auto& shard : shards_) {
    absl::Status status = shard->Remove(job);
    if (!status.ok()) LogWarning("job %u: %s", job.value(), std::string(status.message()));
  }
  checkpoints_->End(job);  // once no shard cuts for it any more
}

void ServerDaemon::SendTraces() {
  if (traced_.empty()) return;
  for (size_t i = 0; i < shards_.size(); ++i) {
    for (proto::TraceBatch& batch : shards_[i]->TakeTraces()) {
      batch.set_process(absl::StrCat("server ", options_.name, " shard ", i));
      trace_sender_.Send(std::move(batch), session_.get());
    }
  }
}

proto::Heartbeat ServerDaemon::MakeHeartbeat() {
  proto::Heartbeat heartbeat;
  uint64_t memory_bytes = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const std::vector<BackupState> backups = shards_[i]->BackupStates();
    for (const auto& [job, report] : shards_[i]->NextReports()) {
      const ShardCounters& counters = report.counters;
      proto::JobCounters* of_job = heartbeat.add_jobs();
      of_job->set_job_id(job.value());
      of_job->set_shard(static_cast<uint32_t>(i));
      proto::ShardCounters* out = of_job->mutable_counters();
      out->set_pushes(counters.pushes);
      out->set_answers(counters.answers);
      out->set_duplicates(counters.duplicates);
      out->set_refused(counters.refused);
      out->set_bytes_received(counters.bytes_received);
      out->set_bytes_sent(counters.bytes_sent);
      of_job->mutable_nodes()->Add(report.nodes.begin(), report.nodes.end());
      of_job->set_memory_bytes(report.memory_bytes);
      of_job->set_memory_limit_bytes(core_.admission().LimitOf(job, i));
      memory_bytes += report.memory_bytes;
      for (const BackupState& state : backups) {
        if (state.job == job) *of_job->add_backups() = ReportOf(state, absl::Now());
      }
    }
  }
  AddResources(memory_bytes, &heartbeat);
  AddRefusals(&heartbeat);
  return heartbeat;
}

void ServerDaemon::AddResources(uint64_t memory_bytes, proto::Heartbeat* heartbeat) {
  const ProcessUse process = MeasureUse();
  transport::EndpointUse connections;
  for (auto& shard : shards_) {
    const transport::EndpointUse use = shard->Use();
    connections.connections += use.connections;
    connections.connections_max += use.connections_max;
  }
  AddResource("file descriptors", process.descriptors, process.descriptors_max, heartbeat);
  AddResource("connections", connections.connections, connections.connections_max, heartbeat);
  AddResource("largest frame bytes", core_.admission().chunk_bytes_max(), kFramePayloadBytesMax,
              heartbeat);
  AddSessionResources(session_->use(), heartbeat);
  AddResource("memory bytes", memory_bytes, core_.admission().memory_limit_bytes(), heartbeat);
  AddResource("promised memory bytes", core_.admission().promised_bytes(),
              core_.admission().memory_limit_bytes(), heartbeat);
  AddResource("resident bytes", process.resident_bytes, 0, heartbeat);
}

void ServerDaemon::AddRefusals(proto::Heartbeat* heartbeat) {
  Refusals sum;
  for (auto& shard : shards_) {
    for (const auto& [cause, count] : shard->AllRefusals()) sum[cause] += count;
  }
  for (const auto& [cause, count] : sum) {
    if (count == 0) continue;
    AddRefusal(cause, count, heartbeat);
    heartbeat->mutable_refusals()->rbegin()->set_expected(IsExpected(cause));
  }
}

}  // namespace strata::server
