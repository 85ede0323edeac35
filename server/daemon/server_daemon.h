#ifndef STRATA_SERVER_DAEMON_SERVER_DAEMON_H_
#define STRATA_SERVER_DAEMON_SERVER_DAEMON_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"
#include "common/control/send_trace.h"
#include "common/control/session.h"
#include "common/ids.h"
#include "common/os/interfaces.h"
#include "common/os/limits.h"
#include "common/transport/endpoint.h"
#include "kernels/kernels.h"
#include "proto/control.pb.h"
#include "server/daemon/job_checkpoints.h"
#include "server/daemon/server_daemon_core.h"
#include "server/shard/shard_thread.h"

namespace strata::server {

struct ServerOptions {
  std::string coordinator;            // HOST:PORT, unix:/PATH
  control::Credentials credentials;   // with a HOST:PORT
  std::string name;                   // unique in the cluster
  std::string listen = "127.0.0.1";   // host (interface) that the shards bind to
  std::string address = "127.0.0.1";  // host name at which workers reach them
  net::HostLink link;                 // of the host, for placements
  uint32_t port = 0;                  // of the first shard; the others follow; 0: any free ones
  uint32_t port_last = 0;             // not 0: each shard takes a free port in [port, port_last]
  uint32_t shards = 1;                // 1 to 64
  ServerLimits limits;
  absl::Duration connect_deadline = absl::Seconds(30);
  absl::Duration reconnect_deadline = absl::Seconds(60);

  // Errors: InvalidArgument naming the option.
  absl::Status Validate() const;
};

// The dependencies of the daemon.
struct ServerParts {
  const kernels::Kernels* kernels = nullptr;  // outlives the daemon
  // Called once per shard.
  std::function<absl::StatusOr<std::unique_ptr<transport::Endpoint>>()> make_endpoint;
  // Opens the store that a job's checkpoint.dir names.
  StoreOpener open_store;
};

// The server daemon: shards on ports of their own, and the session that tells it which jobs they
// hold. A ServerDaemonCore decides what becomes of the coordinator's commands.
//
// Threads: Start and Stop from one thread; `on_lost` is called on the session's, on which all
// commands of the coordinator run.
class ServerDaemon : private ServerDaemonActions {
 public:
  // `on_lost`: the coordinator has refused this daemon, or is unreachable for good. Errors:
  // InvalidArgument.
  static absl::StatusOr<std::unique_ptr<ServerDaemon>> Create(
      ServerOptions options, ServerParts parts, std::function<void(const absl::Status&)> on_lost);
  ~ServerDaemon() override;

  // Opens the shards' ports, then blocks until registered. Errors: ResourceExhausted (fewer file
  // descriptors than shards and connections require, naming both), those of Endpoint::Listen and
  // control::Session::Start.
  absl::Status Start();
  // Tells the coordinator that this daemon stops soon: it gets nothing new, and its shards move to
  // other servers. REQUIRES: Start has succeeded.
  void Leave();
  // Returns whether no job has weights here.
  bool is_idle() const { return is_idle_; }
  // Signs off and ends the shards. Idempotent.
  void Stop();

  // Returns the port of each shard that has been started.
  std::vector<int> ports() const;

 private:
  ServerDaemon(ServerOptions options, ServerParts parts,
               std::function<void(const absl::Status&)> on_lost);

  absl::Status StartShards();
  // Starts one on the first free port at or above `*port`, and sets that to the next one.
  absl::Status StartShard(uint32_t* port, uint32_t last);
  void Send(proto::DaemonMessage message) override { session_->Send(std::move(message)); }
  proto::Heartbeat MakeHeartbeat() override;
  absl::Status BeginInstall(size_t thread, const proto::JobRecord& record, ShardId shard,
                            ShardCopy copy) override;
  absl::Status EndInstall(size_t thread, JobId job) override;
  void Load(const proto::InstallJob& install) override;
  absl::Status MoveShard(size_t thread, const proto::MoveShard& move) override;
  absl::Status FillNext(size_t thread, const proto::FillNext& fill) override;
  absl::Status ChangeView(size_t thread, const proto::ViewChange& change) override;
  absl::StatusOr<bool> RemoveShard(size_t thread, JobId job, ShardId shard,
                                   uint32_t generation) override;
  void RemoveJob(JobId job) override;

  // Sends the shards' traces of traced jobs.
  void SendTraces();
  void AddResources(uint64_t memory_bytes, proto::Heartbeat* heartbeat);
  void AddRefusals(proto::Heartbeat* heartbeat);

  const ServerOptions options_;
  const ServerParts parts_;
  const std::function<void(const absl::Status&)> on_lost_;
  std::vector<std::unique_ptr<ShardThread>> shards_;
  std::unique_ptr<control::Session> session_;
  std::unique_ptr<JobCheckpoints> checkpoints_;  // destroyed before the shards and the session
  // Owned by the session's thread:
  std::set<JobId> traced_;            // the jobs here that have a trace
  std::atomic<bool> is_idle_ = true;  // no jobs are here
  control::TraceSender trace_sender_;
  ServerDaemonCore core_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_SERVER_DAEMON_H_
