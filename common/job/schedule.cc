#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/job/job.h"

namespace strata {

OptimizerParams MakeOptimizerParams(const proto::Optimizer& optimizer) {
  switch (optimizer.kind_case()) {
    case proto::Optimizer::kSgd:
      return {.kind = OptimizerKind::kSgd, .weight_decay = optimizer.sgd().weight_decay()};
    case proto::Optimizer::KIND_NOT_SET:
    case proto::Optimizer::kMomentumSgd:
      return {.kind = OptimizerKind::kMomentumSgd,
              .momentum = optimizer.momentum_sgd().momentum(),
              .weight_decay = optimizer.momentum_sgd().weight_decay()};
    case proto::Optimizer::kNesterov:
      return {.kind = OptimizerKind::kNesterov,
              .momentum = optimizer.nesterov().momentum(),
              .weight_decay = optimizer.nesterov().weight_decay()};
    case proto::Optimizer::kAdam:
      return {.kind = OptimizerKind::kAdam,
              .beta1 = optimizer.adam().beta1(),
              .beta2 = optimizer.adam().beta2(),
              .epsilon = optimizer.adam().epsilon(),
              .weight_decay = optimizer.adam().weight_decay()};
    case proto::Optimizer::kAdamw:
      return {.kind = OptimizerKind::kAdamW,
              .beta1 = optimizer.adamw().beta1(),
              .beta2 = optimizer.adamw().beta2(),
              .epsilon = optimizer.adamw().epsilon(),
              .weight_decay = optimizer.adamw().weight_decay()};
    case proto::Optimizer::kLars:
      return {.kind = OptimizerKind::kMomentumSgd,
              .momentum = optimizer.lars().momentum(),
              .weight_decay = optimizer.lars().weight_decay()};
    case proto::Optimizer::kMean:
      return {.kind = OptimizerKind::kMean};
    case proto::Optimizer::kFromProgram:  // not known yet: nothing is updated before it is
      return {.kind = OptimizerKind::kMean};
    case proto::Optimizer::kRmspropWarmup:
      return {.kind = OptimizerKind::kRmspropWarmup,
              .momentum = optimizer.rmsprop_warmup().momentum(),
              .beta2 = optimizer.rmsprop_warmup().decay(),
              .epsilon = optimizer.rmsprop_warmup().epsilon(),
              .weight_decay = optimizer.rmsprop_warmup().weight_decay(),
              .rms_lr = optimizer.rmsprop_warmup().rms_lr(),
              .center_epochs = optimizer.rmsprop_warmup().center_epochs(),
              .width_epochs = optimizer.rmsprop_warmup().width_epochs()};
  }
  return {};
}

uint32_t SamplesPerRank(const proto::Job& job) {
  return job.has_program() ? job.program().samples_per_rank() : job.data().batch_per_rank();
}

proto::Schedule JobSchedule(const proto::Job& job) {
  proto::Schedule schedule = job.schedule();
  if (schedule.base_batch() == 0) return schedule;
  const double batch = static_cast<double>(job.ranks()) * SamplesPerRank(job);
  schedule.set_base_lr(static_cast<float>(schedule.base_lr() * batch / schedule.base_batch()));
  return schedule;
}

RmspropShares RmspropSharesAt(const OptimizerParams& params, double epoch, double lr) {
  const double past = (epoch - params.center_epochs) / params.width_epochs;  // in widths
  RmspropShares shares;
  shares.sgd = past < 0 ? 0.5 * std::exp(2 * past) : std::min(1.0, 0.5 + past);
  // At a rate of 0 nothing moves, and the product of both would be no number.
  if (shares.sgd < 1 && lr > 0) shares.rms = (1 - shares.sgd) * params.rms_lr / lr;
  return shares;
}

double LearningRateAt(const proto::Schedule& schedule, uint64_t samples, uint64_t samples_per_epoch,
                      uint32_t epochs) {
  const double base = schedule.base_lr();
  if (samples_per_epoch == 0) return base;
  const double epoch = static_cast<double>(samples) / static_cast<double>(samples_per_epoch);
  const double warmup = schedule.warmup_epochs();
  if (epoch < warmup) return base * (epoch / warmup);
  switch (schedule.shape_case()) {
    case proto::Schedule::SHAPE_NOT_SET:
    case proto::Schedule::kConstant:
      return base;
    case proto::Schedule::kStep: {
      double rate = base;
      for (float boundary : schedule.step().boundaries_epochs()) {
        if (epoch >= boundary) rate *= schedule.step().gamma();
      }
      return rate;
    }
    case proto::Schedule::kCosine: {
      const double span = static_cast<double>(epochs) - warmup;
      if (span <= 0) return base;
      const double progress = std::min(1.0, (epoch - warmup) / span);
      const double last = schedule.cosine().final_lr();
      return last + (base - last) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    }
  }
  return base;
}

}  // namespace strata
