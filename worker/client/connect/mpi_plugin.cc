// Collective over MPI, as a shared object that a program loads if MPI is installed.
#include <mpi.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "worker/client/connect/collective.h"

namespace strata::mpi {
namespace {

constexpr int kReportTag = 1;
constexpr int kRoot = 0;

absl::Status Check(const char* call, int code) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(code, text, &size);
  return absl::UnavailableError(absl::StrCat(call, ": ", text));
}

class MpiCollective final : public Collective {
 public:
  ~MpiCollective() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return;
    for (Posted& posted : posted_) MPI_Wait(&posted.request, MPI_STATUS_IGNORE);
    MPI_Finalize();
  }

  absl::Status Init() {
    if (absl::Status status = Check("MPI_Init", MPI_Init(nullptr, nullptr)); !status.ok()) {
      return status;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    return absl::OkStatus();
  }

  uint32_t rank() const override { return static_cast<uint32_t>(rank_); }
  uint32_t ranks() const override { return static_cast<uint32_t>(ranks_); }

  absl::StatusOr<uint64_t> StartSum(absl::Span<float> values) override {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Iallreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                                    MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (absl::Status status = Check("MPI_Iallreduce", code); !status.ok()) return status;
    sums_.emplace(++last_sum_, request);
    return last_sum_;
  }

  absl::StatusOr<bool> IsDone(uint64_t sum) override {
    int done = 0;
    const absl::Status status =
        Check("MPI_Test", MPI_Test(&sums_.at(sum), &done, MPI_STATUS_IGNORE));
    if (!status.ok()) return status;
    return done != 0;
  }

  absl::Status Wait(uint64_t sum) override {
    const auto request = sums_.find(sum);
    const absl::Status status = Check("MPI_Wait", MPI_Wait(&request->second, MPI_STATUS_IGNORE));
    sums_.erase(request);
    return status;
  }

  absl::Status Sum(absl::Span<uint64_t> values) override { return Reduce(values, MPI_SUM); }
  absl::Status Max(absl::Span<uint64_t> values) override { return Reduce(values, MPI_MAX); }

  absl::Status Post(const std::string& message) override {
    DropSent();
    posted_.push_back({std::make_unique<std::string>(message), MPI_REQUEST_NULL});
    Posted& posted = posted_.back();
    return Check("MPI_Isend",
                 MPI_Isend(posted.text->data(), static_cast<int>(posted.text->size()), MPI_BYTE,
                           kRoot, kReportTag, MPI_COMM_WORLD, &posted.request));
  }

  absl::StatusOr<std::optional<std::string>> Take() override {
    int is_there = 0, size = 0;
    MPI_Status from;
    absl::Status status = Check(
        "MPI_Iprobe", MPI_Iprobe(MPI_ANY_SOURCE, kReportTag, MPI_COMM_WORLD, &is_there, &from));
    if (!status.ok()) return status;
    if (is_there == 0) return std::optional<std::string>();
    MPI_Get_count(&from, MPI_BYTE, &size);
    std::string message(static_cast<size_t>(size), '\0');
    status = Check("MPI_Recv", MPI_Recv(message.data(), size, MPI_BYTE, from.MPI_SOURCE, kReportTag,
                                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (!status.ok()) return status;
    return std::optional<std::string>(std::move(message));
  }

  void Abort(int exit_status) override { MPI_Abort(MPI_COMM_WORLD, exit_status); }

 private:
  struct Posted {
    std::unique_ptr<std::string> text;
    MPI_Request request;
  };

  static absl::Status Reduce(absl::Span<uint64_t> values, MPI_Op op) {
    return Check("MPI_Allreduce",
                 MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()),
                               MPI_UINT64_T, op, MPI_COMM_WORLD));
  }

  void DropSent() {
    std::erase_if(posted_, [](Posted& posted) {
      int done = 0;
      return MPI_Test(&posted.request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0;
    });
  }

  int rank_ = 0, ranks_ = 1;
  uint64_t last_sum_ = 0;
  absl::flat_hash_map<uint64_t, MPI_Request> sums_;
  std::vector<Posted> posted_;
};

}  // namespace
}  // namespace strata::mpi

extern "C" strata::mpi::Collective* StrataMpiStart(const char* version, char* error,
                                                   size_t error_size) {
  const auto fail = [&](const std::string& why) -> strata::mpi::Collective* {
    why.copy(error, error_size - 1);
    error[std::min(why.size(), error_size - 1)] = '\0';
    return nullptr;
  };
  if (std::string(version) != strata::mpi::kPluginVersion) {
    return fail(absl::StrCat("it is of version ", strata::mpi::kPluginVersion, ", not ", version));
  }
  auto collective = std::make_unique<strata::mpi::MpiCollective>();
  if (const absl::Status status = collective->Init(); !status.ok()) {
    return fail(std::string(status.message()));
  }
  return collective.release();
}
