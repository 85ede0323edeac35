#ifndef STRATA_SERVER_COORDINATOR_COORDINATOR_H_
#define STRATA_SERVER_COORDINATOR_COORDINATOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/checkpoint/store.h"
#include "common/keys/key_file.h"
#include "common/os/limits.h"
#include "proto/control.pb.h"

namespace strata::server {

// The coordinator daemon: membership, jobs and their state on disk, behind gRPC.
//
// Threads: Create, Start and Stop from one thread. All calls block.
class Coordinator {
 public:
  // Several coordinators with the same etcd and the same keys: one leads, the others stand by.
  struct Etcd {
    std::string endpoints = {};  // "HOST:PORT,HOST:PORT"; empty: a single coordinator without etcd
    // Files in PEM; all empty: nothing is encrypted.
    std::string ca_file = {};
    std::string cert_file = {};
    std::string key_file = {};
    std::string cluster = {};    // keys lie below strata/CLUSTER/; empty: the cluster name of the
                                 // keys
    std::string advertise = {};  // "HOST:PORT" for daemons and commands; empty: `listen`
    // Time after a leader's death before another one may lead.
    absl::Duration failover = absl::Seconds(3);
  };
  struct Options {
    std::string listen;  // "HOST:PORT", port 0: any free one; "unix:/PATH": this user alone
    // With HOST:PORT: the path of an additional Unix socket for this user; skipped if it is in use.
    std::string also_listen = {};
    std::string state_dir = "strata-state";
    // The keys that the coordinator shows at a HOST:PORT. If absent: the keys in STATE/keys, which
    // InitKeys makes.
    std::optional<keys::KeyFile> own_keys = {};
    std::string own_keys_from = "--keys";  // where they come from, for messages
    // The cluster was started as a whole by one user, for a limited time: that user's jobs may ask
    // for what elsewhere requires a policy.
    bool is_one_users = false;
    // The policy file, read again once it has changed; empty: STATE/policy.textproto if it exists.
    std::string policy_file = {};
    // Without keys: anybody who reaches the HOST:PORT may do everything, and run programs as this
    // user.
    bool insecure = false;
    absl::Duration heartbeat = absl::Milliseconds(500);
    // A daemon that is silent for this long is lost, and its jobs fail.
    absl::Duration dead_after = absl::Seconds(5);
    // A daemon whose connection ended is lost unless it returns within this time.
    absl::Duration reconnect_grace = absl::Seconds(2);
    // How long running jobs wait for their daemons after a restart of the coordinator.
    absl::Duration restart_patience = absl::Seconds(30);
    // A connection without a request for this long is closed.
    absl::Duration idle_after = absl::Seconds(30);
    CoordinatorLimits limits;
    // A job that can never fit fails once no worker has joined for this long.
    absl::Duration settle_after = absl::Seconds(3);
    // See CoordinatorCore::Options.
    std::function<void(const proto::JobRecord&, proto::JobStatus*)> add_memory_parts;
    // Opens the store that a job's checkpoint.dir names.
    StoreOpener open_store;
    Etcd etcd = {};
    // With etcd: called once, by any thread, with a line for the user, when this coordinator loses
    // the lead or cannot get it. It must be stopped then: nothing that it says is valid any more.
    std::function<void(const absl::Status&)> on_lost = {};

    // Errors: InvalidArgument naming the option.
    absl::Status Validate() const;
  };

  virtual ~Coordinator() = default;  // stops
  static absl::StatusOr<std::unique_ptr<Coordinator>> Create(Options options);

  // Opens the state, resumes the jobs in it and listens. With etcd it listens first, answers every
  // call with Unavailable and the leader's address, and does the rest once it leads. Errors, each
  // naming the address or file: ResourceExhausted (fewer file descriptors than the limits require,
  // naming both), AlreadyExists (port in use), InvalidArgument (address), FailedPrecondition (a
  // HOST:PORT without keys, unusable keys, a policy file that others may change, etcd holds another
  // cluster, or the state directory has jobs of its own), Unavailable (another coordinator has the
  // state directory; etcd does not answer), DataLoss and others of the state.
  virtual absl::Status Start() = 0;
  // Ends the daemon in less than 2 s, even with open streams. Running jobs continue. Idempotent.
  virtual void Stop() = 0;

  // Returns the port that the daemon listens on; 0 before Start, and if it has none.
  virtual int port() const = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_COORDINATOR_H_
