package remote

import (
	"context"
	"net/http"

	"github.com/abidehq/abide/server/api"
)

// Backup backs up the server's embedded store into a folder on the server's machine, which
// must not exist. It takes the role admin.
func (c *Client) Backup(ctx context.Context, path string) (api.Backup, error) {
	var out api.Backup
	_, err := c.call(ctx, http.MethodPost, "/api/v1/backups", nil, api.NewBackup{Path: path}, &out)
	return out, err
}
