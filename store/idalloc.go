package store

// idAlloc hands out the store's numbers from durably reserved blocks.
type idAlloc struct{}

// NewIno returns an inode number that was never used in this store.
func (s *Store) NewIno() Ino { return 0 }

// NewVersionID returns a version id that was never used in this store, as do the other New...ID for their kinds.
func (s *Store) NewVersionID() VersionID { return 0 }

// NewSessionID returns a fresh session id.
func (s *Store) NewSessionID() SessionID { return 0 }

// NewProcessID returns a fresh process id (not a pid).
func (s *Store) NewProcessID() ProcessID { return 0 }

// NewCommandID returns a fresh command id.
func (s *Store) NewCommandID() CommandID { return 0 }

// NewTimelineID returns a fresh timeline id.
func (s *Store) NewTimelineID() TimelineID { return 0 }

// NewWorkspaceID returns a fresh workspace id.
func (s *Store) NewWorkspaceID() WorkspaceID { return 0 }
