// SPDX-License-Identifier: Apache-2.0
#include "comm/transports/mpi/session.hpp"

#include <algorithm>
#include <climits>
#include <memory>
#include <string>
#include <vector>

#include "comm/error.hpp"
#include "comm/transports/diagnosis/clock.hpp"
#include "comm/transports/mpi/bootstrap.hpp"
#include "comm/transports/mpi/roll_call.hpp"
#include "comm/transports/mpi/watchdog.hpp"
#include "comm/transports/processes/patience.hpp"

namespace ringspan::comm::mpi {
namespace {

// Seconds. How fast processes and MPI start is not in our hands.
constexpr double kShortestStart = 1.5;
constexpr double kShortestInit = 5;
constexpr double kFarewell = 0.25;      // for MPI_Finalize after a failure
constexpr double kWhileItSpeaks = 0.5;  // likewise, longer than rank 0 takes to end
constexpr std::int64_t kBootstrapTags = 1024;
constexpr std::int64_t kGathersPerLaunch = 16;

/// Messages in flight whose memory stays until they are done, for ever if need be.
class Exchange {
 public:
  Exchange(MPI_Comm comm, int size, int rank, std::span<const std::byte> mine)
      : comm_(comm),
        rank_(rank),
        mine_(std::make_unique<Bytes>(mine.begin(), mine.end())),
        all_(std::make_unique<Bytes>(static_cast<std::size_t>(size) * mine.size())) {
    std::copy(mine.begin(), mine.end(), of(rank));
  }

  ~Exchange() {
    if (left_behind(sends_, ended)) static_cast<void>(mine_.release());
    if (left_behind(receives_, withdrawn)) static_cast<void>(all_.release());
  }

  void receive(int from, int tag) {
    check(MPI_Irecv(of(from), static_cast<int>(mine_->size()), MPI_BYTE, from, tag, comm_,
                    &receives_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Irecv");
    from_.push_back(from);
  }
  void send(int to, int tag) {
    check(MPI_Isend(mine_->data(), static_cast<int>(mine_->size()), MPI_BYTE, to, tag, comm_,
                    &sends_.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  }

  /// From whom nothing has come. Throws peer_failed if MPI says that nothing will.
  std::vector<int> missing() {
    std::vector<int> missing;
    for (std::size_t i = 0; i < receives_.size(); ++i) {
      int done = 0;
      check_message(MPI_Test(&receives_[i], &done, MPI_STATUS_IGNORE), rank_, from_[i]);
      if (!done) missing.push_back(from_[i]);
    }
    return missing;
  }

  const std::vector<std::byte>& all() const { return *all_; }

 private:
  using Bytes = std::vector<std::byte>;

  /// Whether MPI still has some of them.
  static bool left_behind(std::vector<MPI_Request>& requests, bool (*over)(MPI_Request&)) {
    bool any = false;
    for (MPI_Request& request : requests) {
      if (over(request)) continue;
      MPI_Request_free(&request);
      any = true;
    }
    return any;
  }

  std::byte* of(int rank) { return all_->data() + static_cast<std::size_t>(rank) * mine_->size(); }

  const MPI_Comm comm_;
  const int rank_;
  std::unique_ptr<Bytes> mine_, all_;
  std::vector<int> from_;
  std::vector<MPI_Request> receives_, sends_;
};

/// Why MPI_Finalize may not return, and what it gets at least.
struct LastWords {
  std::string why = "a process is missing";
  double patience = 0;  // seconds
};

/// They outlive the session.
LastWords& last_words() {
  static auto* const words = new LastWords;
  return *words;
}

std::string words(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

}  // namespace

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) throw Error(ErrorKind::system, concat(call, ": ", words(code)));
}

void check_message(int code, int rank, int peer) {
  if (code == MPI_SUCCESS) return;
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  for (const int own : {MPI_ERR_NO_MEM, MPI_ERR_INTERN, MPI_ERR_ARG, MPI_ERR_REQUEST})
    if (kind == own) check(code, "MPI_Test");
  throw Error(ErrorKind::peer_failed,
              concat("rank ", rank, " has lost rank ", peer, ": ", words(code)), {rank, peer});
}

bool ended(MPI_Request& request) {
  int done = 0;
  MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  return done || request == MPI_REQUEST_NULL;  // which MPI makes of one that has failed
}

bool withdrawn(MPI_Request& request) {
  if (ended(request)) return true;
  MPI_Cancel(&request);
  return ended(request);
}

Session& Session::instance(double deadline) {
  static Session session(deadline);
  if (session.comm_ == MPI_COMM_NULL) session.connect(deadline);
  int main_thread = 0, level = 0;
  check(MPI_Is_thread_main(&main_thread), "MPI_Is_thread_main");
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  RINGSPAN_REQUIRE(main_thread || level >= MPI_THREAD_SERIALIZED,
                   "mpi: launch is for the thread that initialised MPI; for any other one, ",
                   "initialise MPI with MPI_THREAD_SERIALIZED");
  return session;
}

Session::Session(double deadline) {
  patience_ = std::max(deadline, kShortestInit);
  int initialized = 0;
  check(MPI_Initialized(&initialized), "MPI_Initialized");
  call_roll(std::max(deadline, kShortestStart));
  if (initialized) return;
  const Watchdog watchdog(patience_, "MPI_Init_thread");
  int level = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
  owns_mpi_ = true;
}

void Session::connect(double deadline) {
  if (duplication_ == MPI_REQUEST_NULL)  // else an earlier call has begun it
    check(MPI_Comm_idup(MPI_COMM_WORLD, &duplicate_, &duplication_), "MPI_Comm_idup");
  const std::int64_t start = diagnosis::steady_now();
  const double limit = std::max(deadline, kShortestStart);
  processes::Idling idling(true, kStartNap);
  for (int done = 0; !done; idling.pause()) {
    check(MPI_Test(&duplication_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!done && diagnosis::seconds_since(start) > limit)
      throw Error(ErrorKind::timeout,
                  concat("launch: not all MPI processes have called it within ", limit, " s"));
  }
  check(MPI_Comm_set_errhandler(duplicate_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(duplicate_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(duplicate_, &size_), "MPI_Comm_size");
  void* largest_tag = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest_tag, &found), "MPI_Comm_get_attr");
  tags_ = (found ? std::int64_t{*static_cast<int*>(largest_tag)} : 32767) + 1;
  unused_tag_ = kBootstrapTags;
  comm_ = duplicate_;
}

Session::~Session() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!owns_mpi_ || finalized) return;
  const LastWords& words = last_words();
  const Watchdog watchdog(std::max(patience_, words.patience), "MPI_Finalize", words.why);
  MPI_Finalize();
}

Bootstrap Session::bootstrap() {
  patience_ = kFarewell;
  const std::int64_t launch = launches_++;
  return {rank_, size_,
          [this, launch, call = std::int64_t{0}](const std::byte* mine, std::byte* all,
                                                 std::size_t bytes, double deadline) mutable {
            RINGSPAN_REQUIRE(call < kGathersPerLaunch, "bootstrap: a launch makes at most ",
                             kGathersPerLaunch, " all-gathers");
            const std::int64_t tag = (launch * kGathersPerLaunch + call++) % kBootstrapTags;
            all_gather({mine, bytes}, all, static_cast<int>(tag), deadline);
          }};
}

// Everybody to everybody: it is short, and shows who is missing.
void Session::all_gather(std::span<const std::byte> mine, std::byte* all, int tag,
                         double deadline) const {
  RINGSPAN_REQUIRE(mine.size() <= INT_MAX, "bootstrap: ", mine.size(), " bytes; at most ", INT_MAX);
  Exchange exchange(comm_, size_, rank_, mine);
  for (int i = 1; i < size_; ++i) {
    const int from = (rank_ + size_ - i) % size_;
    exchange.receive(from, tag);
  }
  for (int i = 1; i < size_; ++i) exchange.send((rank_ + i) % size_, tag);

  const std::int64_t start = diagnosis::steady_now();
  processes::Idling idling(true, kStartNap);
  for (;;) {
    const std::vector<int> missing = exchange.missing();
    if (missing.empty()) {
      std::copy(exchange.all().begin(), exchange.all().end(), all);
      return;
    }
    if (diagnosis::seconds_since(start) > deadline)
      throw Error(
          ErrorKind::timeout,
          concat("launch: no word from rank ", name_list(missing), " within ", deadline, " s"),
          {rank_, missing.front(), "launch"});
    idling.pause();
  }
}

Bootstrap bootstrap(double deadline) { return Session::instance(deadline).bootstrap(); }

Process process(double deadline) {
  const Session& session = Session::instance(deadline);
  return {session.rank(), session.size()};
}

void set_last_words(const std::string& failure, bool first_speaks) {
  last_words() = {failure, first_speaks ? kWhileItSpeaks : 0};
}

void set_patience(double seconds) {
  last_words() = {};  // an earlier launch's
  Session::instance(seconds).set_patience(seconds);
}

}  // namespace ringspan::comm::mpi
