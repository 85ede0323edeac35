#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_REQUESTS_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_REQUESTS_H_

#include <cstdint>
#include <string>

#include "proto/etcd/rpc.pb.h"

namespace strata::server {

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

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_REQUESTS_H_
