#if __has_include(<nccl.h>)

#include "kernels/cuda/nccl_functions.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/find_library.h"
#include "kernels/cuda/plugin_options.h"

namespace strata::cuda {
namespace {

absl::StatusOr<NcclFunctions> Load() {
  const absl::StatusOr<FoundLibrary> library = FindLibrary({.file = "libnccl.so.2",
                                                            .dir = CurrentOptions().nccl_dir,
                                                            .option = "nccl",
                                                            .beside = "nvidia/nccl/lib"},
                                                           PythonPackageFolders());
  if (!library.ok()) return library.status();
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    void* const at = dlsym(library->handle, name);
    if (at == nullptr && missing == nullptr) missing = name;
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(at);
  };
  NcclFunctions functions = {};
  find("ncclGetUniqueId", &functions.GetUniqueId);
  find("ncclCommInitRankConfig", &functions.CommInitRankConfig);
  find("ncclCommGetAsyncError", &functions.CommGetAsyncError);
  find("ncclCommFinalize", &functions.CommFinalize);
  find("ncclCommDestroy", &functions.CommDestroy);
  find("ncclCommAbort", &functions.CommAbort);
  find("ncclAllReduce", &functions.AllReduce);
  find("ncclReduce", &functions.Reduce);
  find("ncclGetErrorString", &functions.GetErrorString);
  find("ncclGetLastError", &functions.GetLastError);
  if (missing == nullptr) return functions;
  return absl::FailedPreconditionError(
      absl::StrCat(library->path, ": has no ", missing, ": this needs NCCL 2.18 or later"));
}

}  // namespace

absl::StatusOr<const NcclFunctions*> LoadNccl() {
  static const absl::StatusOr<NcclFunctions> loaded = Load();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace strata::cuda

#endif
