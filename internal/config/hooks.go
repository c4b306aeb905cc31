package config

import "github.com/abidehq/abide/action/hook"

// Verifier returns how the senders of the hook prove who they are, or nil if they need
// not.
func (h *Hook) Verifier() hook.Verifier {
	v := &h.Verify
	secrets := make([]hook.Secret, len(v.Secrets))
	for i, s := range v.Secrets {
		secrets[i] = s.forHook()
	}
	switch v.Kind {
	case VerifyStandard:
		return hook.StandardWebhooks{Secrets: secrets, Tolerance: v.Tolerance}
	case VerifyGitHub:
		return hook.GitHub{Secrets: secrets}
	case VerifyStripe:
		return hook.Stripe{Secrets: secrets, Tolerance: v.Tolerance}
	case VerifySlack:
		return hook.Slack{Secrets: secrets, Tolerance: v.Tolerance}
	case VerifyHMAC:
		return hook.HMAC{
			Secrets: secrets, Header: v.Header, Prefix: v.Prefix, Algorithm: hook.Algorithm(v.Algorithm),
			Encoding: hook.Encoding(v.Encoding), TimestampHeader: v.TimestampHeader, Tolerance: v.Tolerance,
			Template: v.Template, DeliveryHeader: v.DeliveryHeader,
		}
	default:
		return nil
	}
}
