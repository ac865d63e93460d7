"""etcd's own file: pages, and the changes of keys in them."""
