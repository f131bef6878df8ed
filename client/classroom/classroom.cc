#include "client/classroom/classroom.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/channel.h"
#include "client/classroom/plan.h"
#include "client/classroom/student.h"
#include "client/client.h"
#include "client/load/async_call.h"
#include "client/load/event_loop.h"
#include "core/base/status_macros.h"

namespace luna::classroom {
namespace {

// Fine enough to see the peak of a pool that grows by a block a session every 16 tokens.
constexpr absl::Duration kWatchInterval = absl::Milliseconds(200);
// Half a context is long for a class; more than this is long for a machine.
constexpr uint32_t kLongTextTokens = 1000;

using Stream = load::ServerStream<v1::GenerateEvent>;
using Watch = load::ServerStream<v1::MemorySnapshot>;

// How long the texts that are pasted are, in this model's tokens.
absl::StatusOr<std::array<std::string, 2>> MakeLongTexts(client::Client& client,
                                                         const Prompts& prompts,
                                                         const v1::GetModelResponse& model) {
  std::array<std::string, 2> texts;
  const uint32_t wanted = std::min(model.context_length() / 2, kLongTextTokens);
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& passage = prompts.by_language[i].passage;
    v1::TokenizeRequest request;
    request.set_text(passage);
    LUNA_ASSIGN_OR_RETURN(const auto tokens, client.Tokenize(request));
    texts[i] = LongText(passage, static_cast<uint32_t>(tokens.ids_size()), wanted);
  }
  return texts;
}

// A student with the desk that carries its orders over gRPC.
class Seat final : public Desk {
 public:
  // Told after everything that happens at this seat.
  struct Teacher {
    std::function<void(std::string_view)> note;
    std::function<void()> something_happened;
  };

  Seat(StudentPlan plan, const Options& options, load::EventLoop& loop, const Clock& clock,
       Teacher teacher)
      : loop_(loop),
        clock_(clock),
        teacher_(std::move(teacher)),
        channel_(client::Connect({options.server, /*own_connection=*/true})),
        inference_(v1::InferenceService::NewStub(channel_)),
        sessions_(v1::SessionService::NewStub(channel_)),
        monitor_(v1::MonitorService::NewStub(channel_)),
        student_(std::move(plan), options, *this) {}

  Student& student() { return student_; }
  const Student& student() const { return student_; }

  void Wait(absl::Duration time) override {
    loop_.After(time, [this] { Tell([this] { student_.OnTimer(); }); });
  }

  void CreateSession(std::string_view label) override {
    v1::CreateSessionRequest request;
    request.set_label(std::string(label));
    load::CallUnary<v1::Session>(
        loop_,
        [this, request](auto* context, auto* queue) {
          return sessions_->PrepareAsyncCreateSession(context, request, queue);
        },
        [this](absl::Status status, const v1::Session& session) {
          Tell([&] {
            student_.OnSession(status.ok() ? absl::StatusOr<v1::Session>(session) : status);
          });
        });
  }

  void Ask(const v1::GenerateRequest& request) override {
    student_.OnAsked(clock_.Now());
    stream_ = Stream::Start(
        loop_,
        [this, &request](auto* context, auto* queue) {
          return inference_->PrepareAsyncGenerate(context, request, queue);
        },
        [this](const v1::GenerateEvent& event) { return student_.OnEvent(event, clock_.Now()); },
        [this](absl::Status status) {
          stream_.reset();
          Tell([&] { student_.OnAnswerEnd(status); });
        });
  }

  void CancelAnswer() override {
    if (stream_ != nullptr) stream_->Cancel();
  }

  void ResetSession(std::string_view session_id) override {
    v1::ResetSessionRequest request;
    request.set_session_id(std::string(session_id));
    load::CallUnary<v1::Session>(
        loop_,
        [this, request](auto* context, auto* queue) {
          return sessions_->PrepareAsyncResetSession(context, request, queue);
        },
        [this](absl::Status status, const v1::Session&) {
          Tell([&] { student_.OnReset(status); });
        });
  }

  void ReadMemory(std::string_view session_id) override {
    v1::GetSessionMemoryRequest request;
    request.set_session_id(std::string(session_id));
    load::CallUnary<v1::SessionMemory>(
        loop_,
        [this, request](auto* context, auto* queue) {
          return monitor_->PrepareAsyncGetSessionMemory(context, request, queue);
        },
        [this](absl::Status status, const v1::SessionMemory& memory) {
          Tell([&] {
            student_.OnMemory(status.ok() ? absl::StatusOr<v1::SessionMemory>(memory) : status);
          });
        });
  }

  void CloseSession(std::string_view session_id) override {
    v1::CloseSessionRequest request;
    request.set_session_id(std::string(session_id));
    load::CallUnary<v1::CloseSessionResponse>(
        loop_,
        [this, request](auto* context, auto* queue) {
          return sessions_->PrepareAsyncCloseSession(context, request, queue);
        },
        [this](absl::Status status, const v1::CloseSessionResponse&) {
          Tell([&] { student_.OnClosed(status); });
        });
  }

  void Note(std::string_view text) override { teacher_.note(text); }

 private:
  template <typename Say>
  void Tell(Say say) {
    say();
    teacher_.something_happened();
  }

  load::EventLoop& loop_;
  const Clock& clock_;
  Teacher teacher_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::InferenceService::Stub> inference_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::MonitorService::Stub> monitor_;
  std::shared_ptr<Stream> stream_;
  Student student_;
};

}  // namespace

// The class while it runs. Everything but Stop's posting happens on the loop's thread.
class Classroom::Room {
 public:
  explicit Room(const Classroom& classroom) : classroom_(classroom) {}

  absl::StatusOr<ClassRecord> Run(absl::Duration show_interval) {
    const Options& options = classroom_.options_;
    client::Client client(client::Connect({options.server}));
    LUNA_ASSIGN_OR_RETURN(record_.model, client.GetModel());
    LUNA_ASSIGN_OR_RETURN(const auto long_texts,
                          MakeLongTexts(client, classroom_.prompts_, record_.model));
    record_.options = options;
    started_ = classroom_.clock_.Now();
    TakeSeats(
        MakePlan(options, classroom_.prompts_, record_.model.has_chat_template(), long_texts));
    StartWatching();
    ShowEvery(show_interval);
    for (const auto& seat : seats_) seat->student().Begin();
    EndIfAllGone();
    loop_.Run();
    record_.elapsed = Elapsed();
    if (const auto pool = client.GetPool(); pool.ok()) record_.pool = *pool;
    if (const auto load = client.GetLoad(); load.ok()) record_.load = *load;
    for (const auto& seat : seats_) record_.students.push_back(seat->student().record());
    return record_;
  }

  void PostStop() {
    loop_.Post([this] { Stop(); });
  }

 private:
  void TakeSeats(std::vector<StudentPlan> plans) {
    for (StudentPlan& plan : plans) {
      seats_.push_back(std::make_unique<Seat>(
          std::move(plan), classroom_.options_, loop_, classroom_.clock_,
          Seat::Teacher{[this](std::string_view text) { classroom_.viewer_.Note(Elapsed(), text); },
                        [this] { EndIfAllGone(); }}));
    }
  }

  void StartWatching() {
    monitor_ = v1::MonitorService::NewStub(client::Connect({classroom_.options_.server}));
    v1::WatchMemoryRequest request;
    request.mutable_interval()->set_nanos(
        static_cast<int32_t>(absl::ToInt64Nanoseconds(kWatchInterval)));
    watch_ = Watch::Start(
        loop_,
        [this, request](auto* context, auto* queue) {
          return monitor_->PrepareAsyncWatchMemory(context, request, queue);
        },
        [this](const v1::MemorySnapshot& snapshot) {
          See(snapshot);
          return absl::ZeroDuration();
        },
        [this](absl::Status status) {
          watch_.reset();
          if (!over_) {
            classroom_.viewer_.Note(Elapsed(),
                                    "memory is not watched any more: " + client::Describe(status));
          }
        });
  }

  // Sessions are known by their id; where the server does not take this connection for their owner,
  // by their label, which is the student's name.
  void See(const v1::MemorySnapshot& snapshot) {
    frame_.pool = snapshot.pool();
    frame_.load = snapshot.load();
    record_.load = snapshot.load();
    record_.peak_charged_blocks =
        std::max(record_.peak_charged_blocks, snapshot.pool().charged_blocks());
    std::map<std::string_view, const v1::SessionMemory*> by_name;
    for (const auto& memory : snapshot.sessions()) {
      by_name[memory.own() ? memory.session_id() : memory.label()] = &memory;
    }
    for (const auto& seat : seats_) {
      Student& student = seat->student();
      if (student.session_id().empty() || student.gone()) continue;
      auto found = by_name.find(student.session_id());
      if (found == by_name.end()) found = by_name.find(student.plan().name);
      if (found != by_name.end()) student.SeeMemory(*found->second);
    }
  }

  void ShowEvery(absl::Duration interval) {
    Show();
    loop_.After(interval, [this, interval] {
      if (!over_) ShowEvery(interval);
    });
  }

  void Show() {
    const absl::Time now = classroom_.clock_.Now();
    frame_.model = record_.model.name();
    frame_.elapsed = now - started_;
    frame_.rows.clear();
    uint64_t tokens = 0;
    for (const auto& seat : seats_) {
      frame_.rows.push_back(MakeRow(seat->student(), now));
      tokens += seat->student().record().tokens;
    }
    MeasureRate(now, tokens);
    frame_.tokens = tokens;
    classroom_.viewer_.Show(frame_);
  }

  // Tokens a second over a window of about a second, however often the frame is drawn.
  void MeasureRate(absl::Time now, uint64_t tokens) {
    window_.emplace_back(now, tokens);
    while (window_.size() > 2 && now - window_[1].first >= absl::Seconds(1)) {
      window_.erase(window_.begin());
    }
    const double seconds = absl::ToDoubleSeconds(now - window_.front().first);
    if (seconds <= 0) return;
    frame_.tokens_per_s = static_cast<double>(tokens - window_.front().second) / seconds;
    if (seconds < 1) return;  // the class has just begun
    record_.peak_tokens_per_s = std::max(record_.peak_tokens_per_s, frame_.tokens_per_s);
  }

  void EndIfAllGone() {
    const bool gone = std::all_of(seats_.begin(), seats_.end(),
                                  [](const auto& seat) { return seat->student().gone(); });
    if (!gone || over_) return;
    over_ = true;
    if (watch_ != nullptr) watch_->Cancel();
    loop_.CancelTimers();
    Show();
  }

  void Stop() {
    if (over_ || record_.stopped) return;
    record_.stopped = true;
    loop_.CancelTimers();
    for (const auto& seat : seats_) seat->student().Stop();
    EndIfAllGone();
  }

  absl::Duration Elapsed() const { return classroom_.clock_.Now() - started_; }

  const Classroom& classroom_;
  load::EventLoop loop_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::unique_ptr<v1::MonitorService::Stub> monitor_;
  std::shared_ptr<Watch> watch_;
  Frame frame_;
  ClassRecord record_;
  absl::Time started_;
  std::vector<std::pair<absl::Time, uint64_t>> window_;
  bool over_ = false;
};

Classroom::Classroom(const Options& options, const Prompts& prompts, Viewer& viewer,
                     const Clock& clock)
    : options_(options),
      prompts_(prompts),
      viewer_(viewer),
      clock_(clock),
      room_(std::make_unique<Room>(*this)) {}

Classroom::~Classroom() = default;

absl::StatusOr<ClassRecord> Classroom::Run(absl::Duration show_interval) {
  return room_->Run(show_interval);
}

void Classroom::Stop() { room_->PostStop(); }

}  // namespace luna::classroom
