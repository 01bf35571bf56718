package proc

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"wsfs/store"
)

// IDs hands out the numbers of new rows; *store.Store is one. Calls come with a lock held and must not block.
type IDs interface {
	NewSessionID() store.SessionID
	NewProcessID() store.ProcessID
	NewCommandID() store.CommandID
}

// maxSessions bounds how many sessions are remembered; a forgotten one gets a new row when it comes back.
const maxSessions = 4096

// Sessions are the writers of one workspace. Share it between the resolvers of a workspace that is mounted more than
// once, so that a session is the same writer in all of them. Safe for concurrent use.
type Sessions struct {
	ids       IDs
	workspace store.WorkspaceID
	now       func() time.Time
	host      string

	mu    sync.Mutex // a leaf: nothing is called with it held but ids and now
	known lru[sessionKey, *session]
}

// sessionKey says which session: by name, or by the leader of a login session. The zero key is "unknown".
type sessionKey struct {
	name  string
	sid   int
	start uint64 // of the leader in clock ticks; 0 if the leader was gone before we saw it
}

// session is a row and what changes with it. Guarded by Sessions.mu but for last.
type session struct {
	row      *store.Session
	commands int                           // numbers given out
	last     atomic.Pointer[store.Command] // who asked last
}

// NewSessions makes an empty table. host completes the names of automatic sessions; nil now means time.Now.
func NewSessions(ids IDs, workspace store.WorkspaceID, host string, now func() time.Time) *Sessions {
	if now == nil {
		now = time.Now
	}
	return &Sessions{ids: ids, workspace: workspace, host: host, now: now}
}

// Adopt continues a session of an earlier run under its name: it keeps its row, and the next command gets the number
// after commands.
func (s *Sessions) Adopt(row *store.Session, commands int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.put(sessionKey{name: row.Name}, &session{row: row, commands: commands})
	s.known.bound(maxSessions)
}

// get returns the session's row, making it at first use; nil for the zero key. comm is the leader's, for the name of an
// automatic session.
func (s *Sessions) get(key sessionKey, comm string) *store.Session {
	if key == (sessionKey{}) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookup(key, comm).row
}

// entry is get with what changes.
func (s *Sessions) entry(key sessionKey, comm string) *session {
	if key == (sessionKey{}) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookup(key, comm)
}

// count numbers a command of a session.
func (s *Sessions) count(ses *session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	ses.commands++
	return ses.commands
}

func (s *Sessions) lookup(key sessionKey, comm string) *session {
	if ses, ok := s.known.get(key); ok {
		return ses
	}
	name, agent := key.name, ""
	if name == "" {
		agent = store.AgentLogin
		if comm == "" {
			comm = "session"
		}
		name = fmt.Sprintf("%s-%d@%s", comm, key.sid, s.host)
	}
	ses := &session{row: &store.Session{
		ID: s.ids.NewSessionID(), Name: name, Workspace: s.workspace, Agent: agent, StartedAt: s.now().UnixNano(),
	}}
	s.known.put(key, ses)
	s.known.bound(maxSessions)
	return ses
}
