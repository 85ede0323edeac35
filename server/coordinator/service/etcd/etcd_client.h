#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_ETCD_CLIENT_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_ETCD_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/etcd/rpc.pb.h"

namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace strata::server {

// Files in PEM; all empty: nothing is encrypted.
struct EtcdTls {
  std::string ca_file;  // signed the certificates of etcd's members
  // What this client shows, if etcd wants to see something; both or neither.
  std::string cert_file;
  std::string key_file;
};

// When one call ends that is not answered.
struct EtcdPatience {
  absl::Duration deadline = absl::InfiniteDuration();  // where it is shorter than the client's
  std::stop_token stop = {};
};

// Calls to an etcd of one or more members. A member that does not answer is left for the next one,
// round and round until a call's deadline; the one that answered is asked first the next time. So a
// change may reach etcd twice, or after its call has failed: changes must bear that.
//
// Threads: any. Errors name the members: Unavailable (none answers, and why), Cancelled (by a stop
// token), ResourceExhausted (etcd is full), and what else etcd says.
class EtcdClient {
 public:
  struct Options {
    std::string endpoints;  // "HOST:PORT,HOST:PORT"
    EtcdTls tls;
    absl::Duration deadline = absl::Seconds(5);  // of each call
    std::stop_token stop = {};                   // ends all calls, also later ones
  };
  // Connects when first used. Errors: InvalidArgument (endpoints, or files that do not fit
  // together), and those of files, each naming what is wrong.
  static absl::StatusOr<std::unique_ptr<EtcdClient>> Open(const Options& options);
  ~EtcdClient();

  // Returns "etcd at HOST:PORT,HOST:PORT".
  const std::string& name() const { return name_; }

  absl::StatusOr<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request,
                                                    const EtcdPatience& patience = {});
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request,
                                                const EtcdPatience& patience = {});

  struct Lease {
    int64_t id = 0;
    absl::Duration ttl;  // what etcd granted; it has a minimum
  };
  absl::StatusOr<Lease> GrantLease(absl::Duration ttl, const EtcdPatience& patience);
  // Returns the time that the lease has from now on. Errors: also NotFound (there is no such lease
  // any more).
  absl::StatusOr<absl::Duration> KeepAlive(int64_t lease, const EtcdPatience& patience);
  // Takes away what the lease holds.
  absl::Status RevokeLease(int64_t lease, const EtcdPatience& patience);

  // Returns once the key may have gone after `revision`. Asks one member only, and as long as
  // `patience` says. Errors: DeadlineExceeded (not in time), those of any call; look at the key
  // anew then.
  absl::Status AwaitDeletion(const std::string& key, int64_t revision,
                             const EtcdPatience& patience);

 private:
  struct Member;
  using Attempt = std::function<grpc::Status(Member&, grpc::ClientContext*)>;

  EtcdClient(std::vector<std::unique_ptr<Member>> members, std::string name,
             absl::Duration deadline, std::stop_token stop);
  absl::Status Call(const EtcdPatience& patience, const Attempt& attempt);

  const std::vector<std::unique_ptr<Member>> members_;
  const std::string name_;
  const absl::Duration deadline_;
  const std::stop_token stop_;
  std::atomic<size_t> current_ = 0;  // the member to ask first
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_ETCD_CLIENT_H_
