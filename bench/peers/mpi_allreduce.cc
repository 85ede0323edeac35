// MPI_Allreduce in place, or MPI_Iallreduce and MPI_Wait with --nonblocking. Rank and nodes are
// those of mpirun, whose --mca btl says what carries the bytes: "vader,self" or "tcp,self".
//
// usage: mpirun -n N mpi_allreduce PEER_OPTIONS [--nonblocking]
#include <mpi.h>

#include <CLI/CLI.hpp>

#include "bench/peers/peer.h"

namespace strata::bench {
namespace {

int Run(const PeerOptions& options, bool nonblocking) {
  auto step = [&](absl::Span<float> gradient, absl::Span<float>) -> absl::Status {
    const auto count = static_cast<int>(gradient.size());
    int failed = 0;
    if (nonblocking) {
      MPI_Request request;
      failed = MPI_Iallreduce(MPI_IN_PLACE, gradient.data(), count, MPI_FLOAT, MPI_SUM,
                              MPI_COMM_WORLD, &request);
      if (failed == MPI_SUCCESS) failed = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      failed =
          MPI_Allreduce(MPI_IN_PLACE, gradient.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    return failed == MPI_SUCCESS ? absl::OkStatus() : absl::UnavailableError("MPI_Allreduce");
  };
  return RunPeer(nonblocking ? "mpi-nonblocking" : "mpi", options, /*in_place=*/true, step);
}

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  CLI::App app;
  PeerOptions options;
  bool nonblocking = false;
  AddPeerOptions(&app, &options);
  app.add_flag("--nonblocking", nonblocking);
  CLI11_PARSE(app, argc, argv);
  int rank = 0, nodes = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &nodes);
  options.rank = static_cast<uint32_t>(rank);
  options.nodes = static_cast<uint32_t>(nodes);
  const int status = Run(options, nonblocking);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return status;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) { return strata::bench::Main(argc, argv); }
