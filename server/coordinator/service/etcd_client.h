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

// Returns the members of an etcd from "HOST:PORT,HOST:PORT". Errors: InvalidArgument naming what is
// not a HOST:PORT.
absl::StatusOr<std::vector<std::string>> ParseEndpoints(const std::string& text);

// Files in PEM; all empty: nothing is encrypted.
struct EtcdTls {
  std::string ca_file;  // signed the certificates of etcd's members
  // The certificate and key that this client shows where etcd asks for them; both or neither.
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

// The content of an EtcdTls's files.
struct EtcdTlsContent {
  std::string ca;
  std::string cert;
  std::string key;
};

// Errors: InvalidArgument (files that do not fit together, or have no PEM of their kind), those of
// FileError, those of keys::ReadPrivateFile about the key; each names the file.
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

// Revision 0: there is no such key.
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

// The only key of a response's range; null: there is none.
inline const mvccpb::KeyValue* OnlyKey(const etcdserverpb::RangeResponse& range) {
  return range.kvs_size() == 0 ? nullptr : &range.kvs(0);
}

// Likewise of the range that number `index` of a transaction read.
inline const mvccpb::KeyValue* OnlyKey(const etcdserverpb::TxnResponse& txn, int index) {
  return index < txn.responses_size() ? OnlyKey(txn.responses(index).response_range()) : nullptr;
}

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_CLIENT_H_
