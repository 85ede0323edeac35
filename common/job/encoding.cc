#include "common/job/encoding.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/number_check.h"

namespace strata {
namespace {

using proto::Encoding;

constexpr float kTopKDensity = 0.01f, kDgcDensity = 0.001f, kDensityMax = 0.5f;
constexpr float kDgcMomentum = 0.9f, kDgcWarmupEpochs = 4.0f;

bool IsSparse(const Encoding& encoding) {
  return encoding.codec() == Encoding::TOP_K || encoding.codec() == Encoding::DGC;
}

void Fill(Encoding* encoding) {
  const bool dgc = encoding->codec() == Encoding::DGC;
  if (IsSparse(*encoding) && !encoding->has_density()) {
    encoding->set_density(dgc ? kDgcDensity : kTopKDensity);
  }
  if (!dgc) return;
  if (!encoding->has_momentum()) encoding->set_momentum(kDgcMomentum);
  if (!encoding->has_warmup_epochs()) encoding->set_warmup_epochs(kDgcWarmupEpochs);
}

// Checks fields that only other codecs use.
absl::Status CheckStray(const char* field, const Encoding& encoding) {
  const std::string name = Encoding::Codec_Name(encoding.codec());
  if (encoding.has_density() && !IsSparse(encoding)) {
    return Refuse(absl::StrFormat("%s.density: belongs to TOP_K and DGC, not to %s", field, name));
  }
  if (encoding.codec() == Encoding::DGC) return absl::OkStatus();
  for (const auto& [part, has] : {std::pair("momentum", encoding.has_momentum()),
                                  std::pair("warmup_epochs", encoding.has_warmup_epochs())}) {
    if (has) return Refuse(absl::StrFormat("%s.%s: belongs to DGC, not to %s", field, part, name));
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const char* field, const Encoding& encoding) {
  if (!Encoding::Codec_IsValid(encoding.codec())) {
    return Refuse(
        absl::StrFormat("%s.codec: %d is not one of FP32, FP16, BF16, INT8, ONE_BIT, "
                        "TOP_K, DGC",
                        field, encoding.codec()));
  }
  if (absl::Status status = CheckStray(field, encoding); !status.ok()) return status;
  const float density = encoding.density();
  if (IsSparse(encoding) && !(density > 0 && density <= kDensityMax)) {
    return Refuse(absl::StrFormat("%s.density: %g is not a number > 0 and <= %g", field, density,
                                  kDensityMax));
  }
  if (encoding.codec() != Encoding::DGC) return absl::OkStatus();
  if (!(encoding.momentum() >= 0 && encoding.momentum() < 1)) {
    return Refuse(absl::StrFormat("%s.momentum: %g is not a number >= 0 and < 1", field,
                                  encoding.momentum()));
  }
  if (!std::isfinite(encoding.warmup_epochs()) || encoding.warmup_epochs() < 0) {
    return Refuse(absl::StrFormat("%s.warmup_epochs: %g is not a finite number >= 0", field,
                                  encoding.warmup_epochs()));
  }
  return absl::OkStatus();
}

// Checks that the exchange can carry the encodings.
absl::Status CheckExchange(const proto::Job& job) {
  const std::string push = Encoding::Codec_Name(job.push().codec());
  const std::string pull = Encoding::Codec_Name(job.pull().codec());
  if (job.exchange() == proto::Job::PARAMETER_SERVER) return absl::OkStatus();
  if (job.exchange() != proto::Job::RING) {
    const bool pushes = IsEncoded(job.push());
    if (!pushes && !IsEncoded(job.pull())) return absl::OkStatus();
    return Refuse(absl::StrFormat("%s.codec: %s, but exchange: %s carries FP32 alone",
                                  pushes ? "push" : "pull", pushes ? push : pull,
                                  proto::Job::Exchange_Name(job.exchange())));
  }
  if (IsEncoded(job.pull())) {
    return Refuse(absl::StrFormat(
        "pull.codec: %s, but with exchange: RING push is for gradients and weights", pull));
  }
  switch (job.push().codec()) {
    case Encoding::FP32:
    case Encoding::FP16:
    case Encoding::BF16:
      return absl::OkStatus();
    default:
      return Refuse(absl::StrFormat(
          "push.codec: %s, but exchange: RING encodes at every hop, so it carries FP32, FP16 and "
          "BF16",
          push));
  }
}

}  // namespace

void FillEncodings(proto::Job* job) {
  if (job->has_push()) Fill(job->mutable_push());
  if (job->has_pull()) Fill(job->mutable_pull());
}

absl::Status CheckEncodings(const proto::Job& job) {
  if (absl::Status status = CheckNumbers("push", job.push()); !status.ok()) return status;
  if (absl::Status status = CheckNumbers("pull", job.pull()); !status.ok()) return status;
  if (job.pull().codec() == Encoding::DGC) {
    return Refuse("pull.codec: DGC compresses gradients, but answers carry weights");
  }
  if (absl::Status status = CheckExchange(job); !status.ok()) return status;
  const bool may_be_sgd = job.optimizer().has_sgd() || job.optimizer().has_from_program();
  if (job.push().codec() == Encoding::DGC && !may_be_sgd) {
    const std::string kind =
        proto::Optimizer::descriptor()->FindFieldByNumber(job.optimizer().kind_case())->name();
    return Refuse(absl::StrFormat(
        "optimizer: %s, but push.codec: DGC has a momentum of its own and needs sgd", kind));
  }
  return absl::OkStatus();
}

std::string EncodingName(const proto::Encoding& encoding) {
  switch (encoding.codec()) {
    case Encoding::FP16:
      return "fp16";
    case Encoding::BF16:
      return "bf16";
    case Encoding::INT8:
      return "int8";
    case Encoding::ONE_BIT:
      return "1-bit";
    case Encoding::TOP_K:
      return absl::StrFormat("top-k %g %%", 100 * encoding.density());
    case Encoding::DGC:
      return absl::StrFormat("DGC %g %%", 100 * encoding.density());
    default:
      return "fp32";
  }
}

std::string EncodingsName(const proto::Job& job) {
  if (!IsEncoded(job.push()) && !IsEncoded(job.pull())) return "";
  if (job.exchange() == proto::Job::RING) return EncodingName(job.push());
  return absl::StrCat("push ", EncodingName(job.push()), ", pull ", EncodingName(job.pull()));
}

}  // namespace strata
