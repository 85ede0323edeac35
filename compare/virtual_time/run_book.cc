#include "compare/virtual_time/run_book.h"

#include <utility>

namespace strata::compare {

RunBook::RunBook(const worker::StepPlan& plan, uint32_t ranks)
    : window_steps_(plan.report_every * ranks), steps_(ranks, 0) {}

void RunBook::OnStep(uint32_t rank, const StepResult& result, double now_s) {
  const uint64_t ahead = steps_[rank]++ - slowest_;
  if (ranks_past_.size() <= ahead) ranks_past_.resize(ahead + 1, 0);
  ++ranks_past_[ahead];
  while (!ranks_past_.empty() && ranks_past_.front() == steps_.size()) {
    ranks_past_.pop_front();
    ++slowest_;
  }
  samples_ += result.samples;
  in_window_ += result.samples;
  window_loss_ += result.loss;
  last_s_ = now_s;
  if (++steps_in_window_ >= window_steps_) CloseWindow(now_s);
}

void RunBook::CloseWindow(double now_s) {
  last_loss_ = std::exchange(window_loss_, 0) / std::exchange(in_window_, 0);
  steps_in_window_ = 0;
  proto::Window& window = windows_.emplace_back();
  window.set_samples(samples_);
  window.set_trained_s(now_s);
  window.set_loss(last_loss_);
}

void RunBook::Write(double began_s, proto::RunRecord* record) const {
  RunBook all = *this;
  if (all.in_window_ > 0) all.CloseWindow(last_s_);
  record->set_trained_s(last_s_ - began_s);
  record->set_samples(samples_);
  record->set_steps(slowest_);
  for (proto::Window& window : all.windows_) {
    window.set_trained_s(window.trained_s() - began_s);
    *record->add_windows() = window;
  }
}

}  // namespace strata::compare
