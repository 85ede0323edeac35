#ifndef STRATA_COMMON_TRANSPORT_REGION_REGION_SESSION_H_
#define STRATA_COMMON_TRANSPORT_REGION_REGION_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/require.h"
#include "common/transport/region/region_exports.h"
#include "common/transport/region/region_imports.h"
#include "common/transport/region/region_line.h"
#include "common/unique_fd.h"
#include "common/wire/frame.h"

namespace strata::transport {

// Shared memory with one peer of this host, that goes with one connection: what is sent over the
// connection may refer to it. Order of events: once HELLO has shown both who the other is, the one
// who has connected sends a greeting with its memory and a random number over the line, and says
// the number over the connection (ATTACH), so that both know which connection the memory belongs
// to; the listener, only then, answers over the line with the memory that this peer may read, and
// says so (ATTACH_OK); who has mapped it says that, too (ATTACH_OK). Until then, and for what does
// not lie in the memory, payloads go with the frames.
//
// Threads: one.
class RegionSession {
 public:
  // `line` leads to a peer.
  explicit RegionSession(UniqueFd line) : line_(std::make_shared<UniqueFd>(std::move(line))) {}

  int fd() const { return line_->get(); }
  // Of the greeting that was heard or sent first; 0: none was.
  uint64_t number() const { return number_; }
  // The peer's memory is known.
  bool has_met() const { return imports_ != nullptr; }

  // Sends our greeting, once: the peer may read `memory` from now on. Errors: ResourceExhausted,
  // Unavailable.
  absl::Status Greet(uint64_t number, std::shared_ptr<const RegionMemory> memory);
  // Takes the peer's, if it has come; has_met() then. Errors: InvalidArgument (also: of another
  // number than ours), Unavailable, ResourceExhausted: there will be no shared memory with it.
  absl::Status Hear();

  // Lets payloads be referred to from now on: the peer has met us, too. REQUIRES: has_met(), Greet.
  void Attach() {
    STRATA_REQUIRE(has_met() && exports_ != nullptr);
    is_attached_ = true;
  }

  bool is_attached() const { return is_attached_; }

  // Puts a reference in the place of the payload, where that is possible.
  void Refer(wire::Frame* frame);
  // Puts the payload in the place of the reference, in a frame that Decode has accepted.
  // Errors: InvalidArgument: no session yet, or a reference outside of the peer's memory.
  absl::Status Resolve(wire::Frame* frame);

  // What the peer needs no more is let go.
  void Sweep() {
    if (exports_ != nullptr) exports_->Sweep();
  }
  // The connection is gone: nothing more is taken from the peer's memory.
  void Leave() { imports_ = nullptr; }
  // The peer needs nothing any more.
  bool IsOver() const { return exports_ == nullptr || exports_->kept() == 0 || HasEnded(*line_); }

 private:
  const std::shared_ptr<UniqueFd> line_;
  std::unique_ptr<RegionExports> exports_;
  std::shared_ptr<RegionImports> imports_;
  uint64_t number_ = 0;
  bool is_attached_ = false;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_REGION_SESSION_H_
