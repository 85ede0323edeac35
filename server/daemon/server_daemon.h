#ifndef STRATA_SERVER_DAEMON_SERVER_DAEMON_H_
#define STRATA_SERVER_DAEMON_SERVER_DAEMON_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/control/credentials.h"
#include "common/control/send_trace.h"
#include "common/control/session.h"
#include "common/image/chunk_image.h"
#include "common/os/interfaces.h"
#include "common/os/limits.h"
#include "common/transport/endpoint.h"
#include "kernels/kernels.h"
#include "proto/control.pb.h"
#include "server/daemon/job_admission.h"
#include "server/daemon/job_checkpoints.h"
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
// hold.
//
// Threads: Start and Stop from one thread; `on_lost` is called on the session's, on which all
// commands of the coordinator run.
class ServerDaemon {
 public:
  // `on_lost`: the coordinator has refused this daemon, or is unreachable for good. Errors:
  // InvalidArgument.
  static absl::StatusOr<std::unique_ptr<ServerDaemon>> Create(
      ServerOptions options, ServerParts parts, std::function<void(const absl::Status&)> on_lost);
  ~ServerDaemon();

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
  void OnMessage(const proto::CoordinatorMessage& message);
  void TakeIn(const proto::InstallJob& install);
  // Admits the job if there is room for it. Errors: as JobAdmission::Admit.
  absl::Status Admit(const proto::InstallJob& install);
  // Calls for each shard of the job on this server, up to the first error. May be called on any
  // thread, like EndInstall.
  absl::Status ForShards(const proto::InstallJob& install,
                         absl::FunctionRef<absl::Status(ShardThread&, ShardId, ShardCopy)> call);
  // The same for each thread that holds any of them, once.
  absl::Status ForThreads(const proto::InstallJob& install,
                          absl::FunctionRef<absl::Status(ShardThread&)> call);
  absl::Status BeginInstall(const proto::InstallJob& install);
  absl::Status EndInstall(const proto::InstallJob& install);
  void MoveShard(const proto::MoveShard& move);
  void InstallBackup(const proto::InstallBackup& install);
  absl::Status TakeBackup(const proto::InstallBackup& install);
  void RemoveShard(const proto::RemoveShard& remove);
  void FillNext(const proto::FillNext& fill);
  template <typename Message>
  void TellNotMoved(const Message& asked, const absl::Status& why);
  // Installs the change on all shards of the job, and reports the outcome to the coordinator.
  void ChangeView(const proto::ViewChange& change);
  // Drops copies of a shard that are older than the generation, and the job with its last copy.
  void Forget(JobId job, ShardId shard, uint32_t generation);
  // Loads the job's checkpoint into the shards, and reports the outcome to the coordinator.
  void Load(const proto::InstallJob& install);
  void TellInstalled(const proto::InstallJob& install, const absl::Status& status);
  void Remove(uint32_t job);
  std::vector<uint32_t> RunningJobs() const;
  // Sends the shards' traces of traced jobs.
  void SendTraces();
  proto::Heartbeat MakeHeartbeat();
  void AddResources(uint64_t memory_bytes, proto::Heartbeat* heartbeat);
  void AddRefusals(proto::Heartbeat* heartbeat);

  const ServerOptions options_;
  const ServerParts parts_;
  const std::function<void(const absl::Status&)> on_lost_;
  std::vector<std::unique_ptr<ShardThread>> shards_;
  std::unique_ptr<control::Session> session_;
  std::unique_ptr<JobCheckpoints> checkpoints_;  // destroyed before the shards and the session
  // Owned by the session's thread:
  std::map<uint32_t, uint32_t> jobs_;  // their attempts
  std::set<uint32_t> traced_;          // those of jobs_ that have a trace
  std::atomic<bool> is_idle_ = true;   // jobs_ is empty
  control::TraceSender trace_sender_;
  JobAdmission admission_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_SERVER_DAEMON_H_
