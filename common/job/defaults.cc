#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/job/job.h"

namespace strata {
namespace {

constexpr float kMomentum = 0.9f;
constexpr float kBeta1 = 0.9f;
constexpr float kBeta2 = 0.999f;
constexpr float kEpsilon = 1e-8f;

void FillSynthetic(proto::Synthetic* data) {
  if (data->classes() == 0) data->set_classes(10);
  if (data->channels() == 0) data->set_channels(1);
  if (data->height() == 0) data->set_height(28);
  if (data->width() == 0) data->set_width(28);
  if (data->train_samples() == 0) data->set_train_samples(4096);
  if (data->test_samples() == 0) data->set_test_samples(512);
}

void FillSyntheticImageNet(proto::SyntheticImageNet* data) {
  if (data->classes() == 0) data->set_classes(1000);
  if (data->size() == 0) data->set_size(224);
  if (data->train_samples() == 0) data->set_train_samples(1281167);
  if (data->test_samples() == 0) data->set_test_samples(512);
}

template <typename MomentumKind>
void FillMomentum(MomentumKind* optimizer) {
  if (!optimizer->has_momentum()) optimizer->set_momentum(kMomentum);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(0.0f);
}

template <typename AdamKind>
void FillAdam(float weight_decay, AdamKind* optimizer) {
  if (!optimizer->has_beta1()) optimizer->set_beta1(kBeta1);
  if (!optimizer->has_beta2()) optimizer->set_beta2(kBeta2);
  if (!optimizer->has_epsilon()) optimizer->set_epsilon(kEpsilon);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(weight_decay);
}

void FillLars(proto::Lars* optimizer) {
  if (!optimizer->has_momentum()) optimizer->set_momentum(kMomentum);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(5e-4f);
  if (!optimizer->has_coefficient()) optimizer->set_coefficient(1e-3f);
}

// Akiba et al. 2017, section 3.2.
void FillRmspropWarmup(proto::RmspropWarmup* optimizer) {
  if (!optimizer->has_momentum()) optimizer->set_momentum(kMomentum);
  if (!optimizer->has_decay()) optimizer->set_decay(0.99f);
  if (!optimizer->has_epsilon()) optimizer->set_epsilon(kEpsilon);
  if (!optimizer->has_rms_lr()) optimizer->set_rms_lr(3e-4f);
  if (!optimizer->has_center_epochs()) optimizer->set_center_epochs(10);
  if (!optimizer->has_width_epochs()) optimizer->set_width_epochs(5);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(0.0f);
}

void FillOptimizer(proto::Optimizer* optimizer) {
  switch (optimizer->kind_case()) {
    case proto::Optimizer::kSgd:
      if (!optimizer->sgd().has_weight_decay()) optimizer->mutable_sgd()->set_weight_decay(0.0f);
      return;
    case proto::Optimizer::KIND_NOT_SET:
    case proto::Optimizer::kMomentumSgd:
      return FillMomentum(optimizer->mutable_momentum_sgd());
    case proto::Optimizer::kNesterov:
      return FillMomentum(optimizer->mutable_nesterov());
    case proto::Optimizer::kAdam:
      return FillAdam(0.0f, optimizer->mutable_adam());
    case proto::Optimizer::kAdamw:
      return FillAdam(0.01f, optimizer->mutable_adamw());
    case proto::Optimizer::kLars:
      return FillLars(optimizer->mutable_lars());
    case proto::Optimizer::kMean:
    case proto::Optimizer::kFromProgram:
      return;
    case proto::Optimizer::kRmspropWarmup:
      return FillRmspropWarmup(optimizer->mutable_rmsprop_warmup());
  }
}

void FillSchedule(proto::Schedule* schedule) {
  if (!schedule->has_base_lr()) schedule->set_base_lr(0.05f);
  if (schedule->shape_case() == proto::Schedule::SHAPE_NOT_SET) schedule->mutable_constant();
  if (schedule->has_step() && !schedule->step().has_gamma()) {
    schedule->mutable_step()->set_gamma(0.1f);
  }
}

}  // namespace

void FillDefaults(proto::Job* job) {
  if (job->has_data()) {
    proto::Data* data = job->mutable_data();
    if (data->batch_per_rank() == 0) data->set_batch_per_rank(64);
    if (data->has_synthetic()) FillSynthetic(data->mutable_synthetic());
    if (data->has_synthetic_imagenet()) {
      FillSyntheticImageNet(data->mutable_synthetic_imagenet());
    }
  }
  FillEncodings(job);
  // DGC's momentum is on the nodes.
  const bool has_optimizer = job->optimizer().kind_case() != proto::Optimizer::KIND_NOT_SET;
  if (!has_optimizer && job->push().codec() == proto::Encoding::DGC) {
    job->mutable_optimizer()->mutable_sgd();
  }
  FillOptimizer(job->mutable_optimizer());
  FillSchedule(job->mutable_schedule());
  FillConsistency(job->mutable_consistency());
  if (job->ranks() == 0) job->set_ranks(1);
  if (job->ranks_min() == 0 && DropsLost(*job)) job->set_ranks_min(job->ranks_per_node());
  if (job->ranks_min() == 0 && job->ranks_max() > 0) job->set_ranks_min(job->ranks());
  if (job->ranks_max() == 0 && job->ranks_min() > 0) job->set_ranks_max(job->ranks());
  if (job->epochs() == 0 && job->max_steps() == 0) job->set_epochs(1);
  if (job->seed() == 0) job->set_seed(1);
  if (job->window() == 0) job->set_window(4);
  if (job->connections() == 0) job->set_connections(1);
  proto::Evaluation* evaluation = job->mutable_evaluation();
  if (evaluation->every_epochs() == 0 && evaluation->every_steps() == 0) {
    evaluation->set_every_epochs(1);
  }
  if (job->has_checkpoint() && job->checkpoint().keep() == 0)
    job->mutable_checkpoint()->set_keep(2);
  if (job->has_restart() && !job->restart().has_within_hours()) {
    job->mutable_restart()->set_within_hours(1);
  }
  if (job->has_replace()) {
    proto::Replace* replace = job->mutable_replace();
    if (replace->patience_s() == 0) replace->set_patience_s(300);
    if (!replace->has_hang_after_s()) replace->set_hang_after_s(60);
  }
  if (job->metrics().every_steps() == 0) job->mutable_metrics()->set_every_steps(50);
}

}  // namespace strata
