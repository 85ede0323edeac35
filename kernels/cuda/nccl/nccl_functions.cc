#if __has_include(<nccl.h>)

#include "kernels/cuda/nccl/nccl_functions.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/find_library.h"
#include "kernels/cuda/runtime/plugin_options.h"

namespace strata::cuda {
namespace {

absl::StatusOr<NcclFunctions> Load() {
  const absl::StatusOr<FoundLibrary> library = FindLibrary({.file = "libnccl.so.2",
                                                            .dir = CurrentOptions().nccl_dir,
                                                            .option = "nccl",
                                                            .beside = "nvidia/nccl/lib"},
                                                           PythonPackageFolders());
  if (!library.ok()) return library.status();
  NcclFunctions functions = {};
  const char* const missing = LibraryFunctions(*library)
                                  .Find("ncclGetUniqueId", &functions.GetUniqueId)
                                  .Find("ncclCommInitRankConfig", &functions.CommInitRankConfig)
                                  .Find("ncclCommGetAsyncError", &functions.CommGetAsyncError)
                                  .Find("ncclCommFinalize", &functions.CommFinalize)
                                  .Find("ncclCommDestroy", &functions.CommDestroy)
                                  .Find("ncclCommAbort", &functions.CommAbort)
                                  .Find("ncclAllReduce", &functions.AllReduce)
                                  .Find("ncclReduce", &functions.Reduce)
                                  .Find("ncclBroadcast", &functions.Broadcast)
                                  .Find("ncclGetErrorString", &functions.GetErrorString)
                                  .Find("ncclGetLastError", &functions.GetLastError)
                                  .missing();
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
