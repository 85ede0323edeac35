#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_CLIENT_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_CLIENT_H_

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
#include "proto/rpc.pb.h"

namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace strata::server {

// Parses the members of an etcd from "HOST:PORT,HOST:PORT". Errors: InvalidArgument naming the part
// that is not a HOST:PORT.
absl::StatusOr<std::vector<std::string>> ParseEndpoints(const std::string& text);

// Files in PEM; all empty: nothing is encrypted.
struct EtcdTls {
  std::string ca_file;  // signed the certificates of etcd's members
  // The certificate and key that this client shows if etcd asks for them; both or neither.
  std::string cert_file;
  std::string key_file;
};

// When an unanswered call ends.
struct EtcdPatience {
  absl::Duration deadline = absl::InfiniteDuration();  // if shorter than the client's
  std::stop_token stop = {};
};

// Calls an etcd of one or more members. If a member does not answer, the next one is tried, round
// robin until the call's deadline; the one that answered is tried first the next time. So a change
// may reach etcd twice, or after its call has failed: changes must tolerate that.
//
// Threads: any. Errors name the members: Unavailable (none answers, and why), Cancelled (by a stop
// token), ResourceExhausted (etcd is full), and etcd's others.
class EtcdClient {
 public:
  struct Options {
    std::string endpoints;  // "HOST:PORT,HOST:PORT"
    EtcdTls tls;
    absl::Duration deadline = absl::Seconds(5);  // per call
    std::stop_token stop = {};                   // cancels all calls, also later ones
  };
  // Connects on first use. Errors: InvalidArgument (endpoints, or inconsistent files), and those of
  // files, each naming the culprit.
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
    absl::Duration ttl;  // as granted by etcd, which has a minimum
  };
  absl::StatusOr<Lease> GrantLease(absl::Duration ttl, const EtcdPatience& patience);
  // Refreshes the lease; returns its time to live. Further errors: NotFound (the lease has ended).
  absl::StatusOr<absl::Duration> KeepAlive(int64_t lease, const EtcdPatience& patience);
  // Revokes the lease and deletes its keys.
  absl::Status RevokeLease(int64_t lease, const EtcdPatience& patience);

  // Returns once the key may have been deleted after `revision`. Asks one member only, for as long
  // as `patience` says. Errors: DeadlineExceeded (not in time), those of any call; read the key
  // again then.
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

// The contents of an EtcdTls's files.
struct EtcdTlsContent {
  std::string ca;
  std::string cert;
  std::string key;
};

// Errors: InvalidArgument (inconsistent files, or no PEM of the expected kind), those of FileError,
// those of keys::ReadPrivateFile about the key; each names the file.
absl::StatusOr<EtcdTlsContent> ReadEtcdTls(const EtcdTls& tls);

// Requests of etcd in one line each.

inline etcdserverpb::RangeRequest RangeOf(const std::string& key, const std::string& end = "") {
  etcdserverpb::RangeRequest range;
  range.set_key(key);
  range.set_range_end(end);
  return range;
}

inline etcdserverpb::RequestOp Get(const std::string& key, const std::string& end = "") {
  etcdserverpb::RequestOp op;
  *op.mutable_request_range() = RangeOf(key, end);
  return op;
}

inline etcdserverpb::RequestOp Put(const std::string& key, const std::string& value,
                                   int64_t lease = 0) {
  etcdserverpb::RequestOp op;
  op.mutable_request_put()->set_key(key);
  op.mutable_request_put()->set_value(value);
  op.mutable_request_put()->set_lease(lease);
  return op;
}

inline etcdserverpb::RequestOp Delete(const std::string& key, const std::string& end = "") {
  etcdserverpb::RequestOp op;
  op.mutable_request_delete_range()->set_key(key);
  op.mutable_request_delete_range()->set_range_end(end);
  return op;
}

// Revision 0: the key does not exist.
inline etcdserverpb::Compare CreatedAt(const std::string& key, int64_t revision) {
  etcdserverpb::Compare compare;
  compare.set_target(etcdserverpb::Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(revision);
  return compare;
}

inline etcdserverpb::Compare ChangedAt(const std::string& key, int64_t revision) {
  etcdserverpb::Compare compare;
  compare.set_target(etcdserverpb::Compare::MOD);
  compare.set_key(key);
  compare.set_mod_revision(revision);
  return compare;
}

// Returns the only key of a response's range; null: there is none.
inline const mvccpb::KeyValue* OnlyKey(const etcdserverpb::RangeResponse& range) {
  return range.kvs_size() == 0 ? nullptr : &range.kvs(0);
}

// The same for the range that operation `index` of a transaction read.
inline const mvccpb::KeyValue* OnlyKey(const etcdserverpb::TxnResponse& txn, int index) {
  return index < txn.responses_size() ? OnlyKey(txn.responses(index).response_range()) : nullptr;
}

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_CLIENT_H_
