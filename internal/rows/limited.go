package rows

import "slices"

// A claim that is limited to tenants has bounds of its own: that a partition has something to claim
// for others does not concern it, and that it has nothing for these tenants says nothing about
// others. So a limited subscription has, for each of its partitions, a view, which is a partition
// with a single subscription. A change of a partition lowers the bounds of its views as well: of all
// of them if only the partition is known, as in the announcement of another process, and of those
// of the tenants concerned if the change is a commit of this one.
//
// A bound that was lowered for another tenant costs a query, which finds nothing and raises it. It
// is never the other way round.

// views are the views of a partition.
type views struct {
	all      []*partition
	byTenant map[int64][]*partition // by the number of the tenant (TenantOf)
}

// tenantIn is a tenant in a partition.
type tenantIn struct{ partition, tenant int64 }

// tenantNumbers returns the numbers of tenants, in order, without duplicates; nil for nil.
func tenantNumbers(tenants []string) []int64 {
	if tenants == nil {
		return nil
	}
	numbers := make([]int64, 0, len(tenants))
	for _, tenant := range tenants {
		numbers = append(numbers, TenantOf(tenant))
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// view returns a view of a partition for a limited subscription.
func (c *claimer) view(p *partition, s *subscription) *partition {
	v := &partition{queue: p.queue}
	p.views.all = append(p.views.all, v)
	if p.views.byTenant == nil {
		p.views.byTenant = map[int64][]*partition{}
	}
	for _, tenant := range s.tenants {
		p.views.byTenant[tenant] = append(p.views.byTenant[tenant], v)
	}
	c.viewed.Add(1)
	return v
}

// forgetViews drops the views of subscriptions that no call uses.
func (c *claimer) forgetViews(p *partition) {
	unused := func(v *partition) bool { return v.subscriptions[0].unused() }
	before := len(p.views.all)
	p.views.all = slices.DeleteFunc(p.views.all, unused)
	for tenant, list := range p.views.byTenant {
		if list = slices.DeleteFunc(list, unused); len(list) == 0 {
			delete(p.views.byTenant, tenant)
		} else {
			p.views.byTenant[tenant] = list
		}
	}
	c.viewed.Add(int64(len(p.views.all) - before))
}

// touchViews lowers the bounds of views, and serves their waiters.
func (c *claimer) touchViews(list []*partition, at, now int64) {
	for _, v := range list {
		c.lowerOne(v, at)
		c.rouse(v, at, now)
	}
}

// dueOf is due by partition and tenant.
func (p *plan) dueOf() map[tenantIn]int64 {
	due := map[tenantIn]int64{}
	for _, k := range p.keys {
		at, ok := k.dueAt(p.now)
		if !ok {
			continue
		}
		in := tenantIn{k.row.Partition(), TenantOf(k.row.Key.Tenant)}
		if known, ok := due[in]; !ok || at < known {
			due[in] = at
		}
	}
	return due
}

// askingFor returns the subscriptions that ask for the keys of a tenant in a partition.
func (c *claimer) askingFor(p *partition, tenant string) []*subscription {
	if len(p.views.all) == 0 {
		return p.subscriptions
	}
	list := slices.Clone(p.subscriptions)
	for _, v := range p.views.byTenant[TenantOf(tenant)] {
		list = append(list, v.subscriptions[0])
	}
	return list
}

// peekReserved returns keys that are reserved for this process, for a query of a limited
// subscription. They stay noted: which of them are of its tenants is not known here.
func (c *claimer) peekReserved(s *subscription, most int) map[ID]reserved {
	found := map[ID]reserved{}
	now := c.time.now()
	for id, r := range s.queue.reserved {
		if _, ok := slices.BinarySearch(s.ids, r.partition); ok && r.until > now && len(found) < most {
			found[id] = r
		}
	}
	return found
}

// dropReserved forgets reserved keys that a query of a limited subscription has leased.
func (s *subscription) dropReserved(got *LeaseResult) {
	for i := range got.Keys {
		delete(s.queue.reserved, got.Keys[i].Row.ID)
	}
}
