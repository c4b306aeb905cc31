package api

import "time"

// NewBackup says where to back up a store.
type NewBackup struct {
	Path string `json:"path" minLength:"1" maxLength:"4096" doc:"An absolute path on the server's machine. The folder must not exist, and the one that it is in must."`
}

// Backup is a backup that was made.
type Backup struct {
	Path      string    `json:"path"`
	CreatedAt time.Time `json:"created_at" doc:"It holds everything that was committed before."`
}
