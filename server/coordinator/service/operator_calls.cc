// The calls of CoordinatorService that end what runs, or have it go elsewhere.
#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/coordinator/service/coordinator_service.h"
#include "server/coordinator/service/doorkeeper.h"

namespace strata::server {

grpc::Status CoordinatorService::StreamedCancel(
    grpc::ServerContext* context, OneRequest<proto::CancelRequest, proto::CancelReply>* stream) {
  return Ask(context, stream, Call::kCancel, [&](const Guest& guest, const auto& request, auto*) {
    const JobId job(request.job_id());
    absl::Status status = doorkeeper_.MayNow(guest, Call::kCancel, job, core_.OwnerOf(job));
    if (status.ok()) status = core_.Cancel(job, clock_.Now());
    if (status.ok()) {
      doorkeeper_.Note(guest.caller, guest.peer, CallName(Call::kCancel), job.value(), "");
    }
    return status;
  });
}

grpc::Status CoordinatorService::StreamedDrain(
    grpc::ServerContext* context, OneRequest<proto::DrainRequest, proto::DrainReply>* stream) {
  return Ask(context, stream, Call::kDrain,
             [&](const Guest& guest, const auto& request, auto* reply) -> absl::Status {
               absl::StatusOr<proto::DrainReply> told = core_.Drain(request, clock_.Now());
               const std::string what = CallName(Call::kDrain);
               if (!told.ok()) {
                 doorkeeper_.NoteRefused(guest, what, told.status());
                 return told.status();
               }
               *reply = *std::move(told);
               if (request.action() == proto::DrainRequest::TELL) return absl::OkStatus();
               const bool undo = request.action() == proto::DrainRequest::UNDO;
               doorkeeper_.Note(guest, what,
                                absl::StrCat(request.daemon(), undo ? ": undone" : ""));
               return absl::OkStatus();
             });
}

}  // namespace strata::server
