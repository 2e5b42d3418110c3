"""SQL Server: its tables behind the interfaces of a catalog, through Microsoft's own driver."""
