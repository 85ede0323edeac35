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

// A store of checkpoints: objects by name. An object whose Put returned OK survives a crash of this
// host.
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

  // Writes an object atomically, replacing one of the same name. After an error either the old
  // object or the new one is there; never a part of one.
  virtual absl::Status Put(const std::string& name,
                           absl::Span<const absl::Span<const char>> pieces) = 0;
  // Writes an object if no object has its name. Errors: AlreadyExists: there is one, which stays.
  // If an answer was lost on the way, an existing object with these bytes counts as this one.
  virtual absl::Status PutNew(const std::string& name,
                              absl::Span<const absl::Span<const char>> pieces) = 0;
  // Returns the object, at an address that is aligned for all types. Errors: NotFound;
  // InvalidArgument: it is larger than `bytes_max`, and no memory is taken for it.
  virtual absl::StatusOr<Bytes> GetAtMost(const std::string& name, uint64_t bytes_max) = 0;
  absl::StatusOr<Bytes> Get(const std::string& name) { return GetAtMost(name, UINT64_MAX); }
  // Reads an object in pieces, so that it need not be in memory as a whole: `take` is called with
  // the object's size and its next bytes, which are valid during the call; once for an empty
  // object. An error of `take` ends the read and is returned. Errors: NotFound.
  using TakePiece = std::function<absl::Status(uint64_t size, absl::Span<const char> piece)>;
  virtual absl::Status Read(const std::string& name, const TakePiece& take);
  // Returns the names of all objects, in order.
  virtual absl::StatusOr<std::vector<std::string>> List() = 0;
  // Removes an object; a missing object is fine.
  virtual absl::Status Delete(const std::string& name) = 0;
  // Removes all objects "FOLDER/..." and the leftovers of writers that died. REQUIRES: nobody
  // writes there.
  virtual absl::Status DeleteFolder(const std::string& folder) = 0;
  // Returns the store's name in errors: its folder or address.
  virtual const std::string& where() const = 0;
};

// Opens what a job's checkpoint.dir names. Errors: those of the kind of store.
using StoreOpener =
    std::function<absl::StatusOr<std::unique_ptr<Store>>(const std::string& address)>;

// Errors: InvalidArgument: not a name as above.
absl::Status CheckObjectName(const std::string& name);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_STORE_H_
