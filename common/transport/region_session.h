#ifndef STRATA_COMMON_TRANSPORT_REGION_SESSION_H_
#define STRATA_COMMON_TRANSPORT_REGION_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/require.h"
#include "common/transport/region_line.h"
#include "common/transport/region_memory.h"
#include "common/transport/shared_segment.h"
#include "common/unique_fd.h"
#include "common/wire/frame.h"
#include "common/wire/region_reference.h"

namespace strata::transport {

// The references that one peer of this host has been given: the bytes are kept until the peer has
// said that it no longer needs them. It says so on a board, a segment of one u64 per slot, by
// writing the reference's ticket there.
//
// Threads: one.
class RegionExports {
 public:
  static constexpr size_t kSlots = 4096;
  static constexpr size_t kBoardBytes = kSlots * sizeof(uint64_t);

  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<RegionExports>> Create(
      std::shared_ptr<const RegionMemory> memory);
  // Use Create.
  RegionExports(std::shared_ptr<const RegionMemory> memory, std::shared_ptr<SharedSegment> board);

  // Makes the board for the peer, once. Errors: ResourceExhausted.
  absl::StatusOr<UniqueFd> HandOverBoard();

  // Keeps the bytes for the peer. Nullopt: they do not lie in the memory, or all slots are in use.
  std::optional<wire::RegionReference> Add(const Bytes& bytes);
  // Releases bytes that the peer no longer needs.
  void Sweep();
  // References that the peer still needs.
  size_t kept() const { return used_.size(); }

 private:
  struct Used {
    uint32_t slot = 0;
    uint64_t ticket = 0;
    Bytes bytes;
  };
  // Only ever written by the peer.
  uint64_t TicketOn(uint32_t slot) const;

  const std::shared_ptr<const RegionMemory> memory_;
  const std::shared_ptr<SharedSegment> board_;
  uint64_t tickets_ = 0;
  std::vector<uint32_t> free_slots_;
  std::vector<Used> used_;
};

// A peer's memory, in which its references are looked up. It lives as long as bytes of it do; then,
// or with the process, the line to the peer is shut on this side, which tells the peer that none of
// its memory is needed.
//
// Threads: Take from one; bytes may be released anywhere.
class RegionImports : public std::enable_shared_from_this<RegionImports> {
 public:
  // The memory that the peer has handed over. `board` is written to.
  struct Parts {
    std::vector<std::shared_ptr<SharedSegment>> segments;
    std::shared_ptr<SharedSegment> board;
  };
  // REQUIRES: the board holds RegionExports::kBoardBytes. `line` is shared with the other side of
  // the same session.
  RegionImports(Parts parts, std::shared_ptr<UniqueFd> line);
  ~RegionImports();

  // The bytes that are meant, without a copy. Errors: InvalidArgument: outside of the memory.
  absl::StatusOr<Bytes> Take(const wire::RegionReference& reference);

 private:
  void Release(uint32_t slot, uint64_t ticket);

  const Parts parts_;
  const std::shared_ptr<UniqueFd> line_;
};

// Memory shared with one peer of this host over one connection, whose frames may refer to it. Order
// of events: HELLO shows each side who the other is. The connecting side sends a greeting with its
// memory and a random number over the line, and sends the number over the connection (ATTACH), so
// that both know which connection the memory belongs to. Only then the listener answers over the
// line with the memory that this peer may read, and reports it (ATTACH_OK); the connecting side
// maps it and reports that, too (ATTACH_OK). Until then, and outside of that memory, payloads
// travel with their frames.
//
// Threads: one.
class RegionSession {
 public:
  // `line` leads to a peer.
  explicit RegionSession(UniqueFd line) : line_(std::make_shared<UniqueFd>(std::move(line))) {}

  int fd() const { return line_->get(); }
  // The number of the first greeting that was heard or sent; 0: none was.
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

  // Releases memory that the peer no longer needs.
  void Sweep() {
    if (exports_ != nullptr) exports_->Sweep();
  }
  // The connection is gone: nothing more is taken from the peer's memory.
  void Leave() { imports_ = nullptr; }
  // Returns whether the peer needs nothing more.
  bool IsOver() const { return exports_ == nullptr || exports_->kept() == 0 || HasEnded(*line_); }

 private:
  const std::shared_ptr<UniqueFd> line_;
  std::unique_ptr<RegionExports> exports_;
  std::shared_ptr<RegionImports> imports_;
  uint64_t number_ = 0;
  bool is_attached_ = false;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_SESSION_H_
