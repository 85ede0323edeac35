#include "server/coordinator/service/background_work.h"

#include <utility>

namespace strata::server {

void BackgroundWork::Do(std::function<void()> work) {
  pieces_.remove_if([](Piece& one) {
    if (one.done) one.thread.join();
    return !one.thread.joinable();
  });
  Piece& added = pieces_.emplace_back();
  added.thread = std::thread([&added, work = std::move(work)] {
    work();
    added.done = true;
  });
}

void BackgroundWork::WaitForAll() {
  for (Piece& piece : pieces_) piece.thread.join();
  pieces_.clear();
}

}  // namespace strata::server
