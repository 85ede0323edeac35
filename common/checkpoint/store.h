#ifndef STRATA_COMMON_CHECKPOINT_STORE_H_
#define STRATA_COMMON_CHECKPOINT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bytes.h"

namespace strata {

// Where checkpoints are kept: objects by name. What Put has returned OK for outlives a crash of
// this host.
//
// Names are parts of letters, digits, '.', '_' and '-', with '/' between; no part begins with '.'
// or has ".tmp." in it. Errors of every call name the object and the store: InvalidArgument (a
// name), those of files, and of a store elsewhere: Unavailable (it may answer later),
// PermissionDenied, FailedPrecondition (no such bucket), DeadlineExceeded, Cancelled (the stop that
// it was opened with).
//
// Threads: any.
class Store {
 public:
  virtual ~Store() = default;

  // Writes an object whole or not at all, over one of the same name. After an error nobody knows
  // whether the old one is there or the new one; half of one never is.
  virtual absl::Status Put(const std::string& name,
                           absl::Span<const absl::Span<const char>> pieces) = 0;
  // Writes an object where there is none of the same name. Errors: AlreadyExists: there is one,
  // which stays. Where an answer was lost on the way, one that is there with these bytes is this
  // one.
  virtual absl::Status PutNew(const std::string& name,
                              absl::Span<const absl::Span<const char>> pieces) = 0;
  // Returns the object, at an address that is aligned for all types. Errors: NotFound.
  virtual absl::StatusOr<Bytes> Get(const std::string& name) = 0;
  // Hands an object on in order, so that it need not be in memory as a whole: `take` is called with
  // the object's size and its next bytes, which are valid during the call; of an empty one once. An
  // error of `take` ends it and is returned. Errors: NotFound.
  using TakePiece = std::function<absl::Status(uint64_t size, absl::Span<const char> piece)>;
  virtual absl::Status Read(const std::string& name, const TakePiece& take);
  // Returns the names of all objects, in order.
  virtual absl::StatusOr<std::vector<std::string>> List() = 0;
  // Removes an object; one that is not there is fine.
  virtual absl::Status Delete(const std::string& name) = 0;
  // Removes all objects "FOLDER/..." and what writers that died have left there. REQUIRES: nobody
  // writes there.
  virtual absl::Status DeleteFolder(const std::string& folder) = 0;
  // Returns what errors call the store: its folder or address.
  virtual const std::string& where() const = 0;
};

// Opens what a job's checkpoint.dir names. Errors: those of the kind of store.
using StoreOpener =
    std::function<absl::StatusOr<std::unique_ptr<Store>>(const std::string& address)>;

// Errors: InvalidArgument: not a name as above.
absl::Status CheckObjectName(const std::string& name);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_STORE_H_
