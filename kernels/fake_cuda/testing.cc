#include "kernels/fake_cuda/testing.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fake_cuda {

bool OtherProcess::Line::Send(const void* data, size_t bytes) {
  return send(fd_.get(), data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

bool OtherProcess::Line::Receive(void* data, size_t bytes) {
  return recv(fd_.get(), data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

OtherProcess::OtherProcess(const std::function<void(Line&)>& body) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  strata::UniqueFd mine(ends[0]), its(ends[1]);
  pid_ = fork();
  if (pid_ == 0) {
    alarm(60);
    mine.Reset();
    Line line(std::move(its));
    body(line);
    _exit(0);
  }
  line_ = std::make_unique<Line>(std::move(mine));
}

OtherProcess::~OtherProcess() { End(); }

int OtherProcess::End() {
  line_ = std::make_unique<Line>(strata::UniqueFd());
  int status = 0;
  if (pid_ > 0) waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

}  // namespace fake_cuda
