#ifndef STRATA_WORKER_CLIENT_MPI_PLUGIN_ENTRY_H_
#define STRATA_WORKER_CLIENT_MPI_PLUGIN_ENTRY_H_

#include <cstddef>

namespace strata::mpi {

class Collective;

// Changes whenever Collective does: program and plugin come from one build.
inline constexpr char kPluginVersion[] = "1";
inline constexpr char kPluginEntry[] = "StrataMpiStart";

// Starts MPI; the caller owns what it returns. Null: `error` says why not.
using PluginEntry = Collective* (*)(const char* version, char* error, size_t error_size);

}  // namespace strata::mpi

#endif  // STRATA_WORKER_CLIENT_MPI_PLUGIN_ENTRY_H_
