#ifndef STRATA_TESTS_FUZZ_SCRIPTED_ENDPOINT_H_
#define STRATA_TESTS_FUZZ_SCRIPTED_ENDPOINT_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/endpoint.h"
#include "tests/fuzz/check.h"

namespace strata::transport {

// An endpoint whose network is what a fuzz target says. It keeps to the contract of Endpoint: no
// event comes of a connection that is over.
class ScriptedEndpoint final : public Endpoint {
 public:
  struct Sent {
    ConnectionId connection;
    wire::Frame frame;
  };

  // Of somebody who connects, or whom the owner connects to.
  ConnectionId NewConnection() { return ConnectionId(++last_id_); }
  bool IsOpen(ConnectionId id) const {
    return std::find(ended_.begin(), ended_.end(), id) == ended_.end();
  }
  // What the next Poll tells.
  void Add(Event event) {
    if (!IsOpen(event.connection)) return;
    if (event.kind == Event::Kind::kDisconnected) ended_.push_back(event.connection);
    coming_.push_back(std::move(event));
  }
  std::deque<Sent>& sent() { return sent_; }
  void set_is_full(bool is_full) { is_full_ = is_full; }
  // Whether payloads go by reference, where they may.
  void set_refers(bool refers) { refers_ = refers; }

  absl::StatusOr<int> Listen(const std::string& /*address*/) override { return 500; }
  absl::StatusOr<ConnectionId> Connect(const std::string& /*address*/) override {
    return NewConnection();
  }
  absl::Status Send(ConnectionId id, const wire::Frame& frame) override {
    if (!IsOpen(id)) return absl::NotFoundError("no such connection");
    if (is_full_) return absl::ResourceExhaustedError("the queue is full");
    if (frame.by_reference && !refers_) return absl::FailedPreconditionError("not by reference");
    sent_.push_back({id, frame});
    return absl::OkStatus();
  }
  void Poll(absl::Duration /*timeout*/, std::vector<Event>* events) override {
    for (Event& event : std::exchange(coming_, {})) events->push_back(std::move(event));
  }
  void WatchFd(int /*fd*/) override {}
  bool Refers(ConnectionId /*connection*/) const override { return refers_; }
  void Close(ConnectionId id) override {
    ended_.push_back(id);
    const auto is_of_it = [id](const Event& event) { return event.connection == id; };
    coming_.erase(std::remove_if(coming_.begin(), coming_.end(), is_of_it), coming_.end());
  }
  void Wake() override {}

 private:
  uint64_t last_id_ = 0;
  bool is_full_ = false, refers_ = false;
  std::vector<ConnectionId> ended_;
  std::vector<Event> coming_;
  std::deque<Sent> sent_;
};

}  // namespace strata::transport

#endif  // STRATA_TESTS_FUZZ_SCRIPTED_ENDPOINT_H_
