#ifndef STRATA_KERNELS_CUDA_RUNTIME_FIND_LIBRARY_H_
#define STRATA_KERNELS_CUDA_RUNTIME_FIND_LIBRARY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::cuda {

// A shared library that the plugin loads only on demand.
struct LibraryWish {
  std::string file;    // as in "libnccl.so.2"
  std::string dir;     // the plugin's option for it; if given, no other folder is searched
  std::string option;  // that option's name, for messages
  std::string beside;  // its folder in a Python installation's packages: "nvidia/nccl/lib"
};

struct FoundLibrary {
  void* handle = nullptr;  // dlopen's; never closed
  std::string path;        // or just its name, if the system's search found it
};

// Looks up functions of an open library by name.
class LibraryFunctions {
 public:
  explicit LibraryFunctions(const FoundLibrary& library) : handle_(library.handle) {}

  template <typename Function>
  LibraryFunctions& Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(FindSymbol(name));
    return *this;
  }
  // The first function that the library lacks; null: it has them all.
  const char* missing() const { return missing_; }

 private:
  void* FindSymbol(const char* name);

  void* const handle_;
  const char* missing_ = nullptr;
};

// Patterns of folders with packages of Python installations, the more likely first: of the user, of
// the system, and of environments in the usual places.
std::vector<std::string> PythonPackageFolders();

// Opens it: only in `dir` if given, otherwise where the system searches, then in the folders that
// match `python_folders`. Errors: NotFound naming the library, why it was not opened, and the
// option; those of CheckTrusted if the only one is a file that others may replace.
absl::StatusOr<FoundLibrary> FindLibrary(const LibraryWish& wish,
                                         const std::vector<std::string>& python_folders);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_RUNTIME_FIND_LIBRARY_H_
